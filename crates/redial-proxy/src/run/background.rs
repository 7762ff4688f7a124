//! The thread of everything that is not a request.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::reload::Reloader;
use super::{file_watch, health_checks};
use crate::admin::page_server::PageServer;
use crate::admin::{self, AdminPages};

/// How often names are looked up. Also the usual time to live of such records.
const LOOK_UP: Duration = Duration::from_secs(5);

/// Starts the thread.
pub(crate) fn start(
    reloader: Arc<Reloader>,
    admin: Option<PageServer>,
    pages: AdminPages,
) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("background".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::spawn(resolve(Arc::clone(&reloader)));
            tokio::spawn(file_watch::watch(Arc::clone(&reloader)));
            tokio::spawn(health_checks::check(Arc::clone(&reloader)));
            if let Some(admin) = admin {
                tokio::spawn(admin::serve(admin, pages));
            }
            reloader.ended.notified().await;
        });
        // A lookup that takes long need not be waited for.
        runtime.shutdown_background();
    })
}

/// Follows the addresses of names.
async fn resolve(reloader: Arc<Reloader>) {
    loop {
        sleep(LOOK_UP).await;
        let reloader = Arc::clone(&reloader);
        // Fails only if it panics.
        let _ = spawn_blocking(move || reloader.resolve()).await;
    }
}
