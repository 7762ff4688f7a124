use std::sync::Arc;

use redial_proxy::AdminPages;
use redial_queue::durable::Store;

use crate::demo::Demo;
use crate::live::Live;

/// What the pages show. A part that is absent has no page.
#[derive(Clone, Default)]
pub struct App {
    /// The store of the queues.
    pub store: Option<Arc<dyn Store>>,
    /// The sidecar.
    pub proxy: Option<AdminPages>,
    /// The traffic to watch, if there is no other.
    pub demo: Option<Arc<Demo>>,
    /// What happens now.
    pub live: Option<Live>,
}

impl App {
    pub(crate) fn mode(&self) -> &'static str {
        match (&self.demo, &self.proxy) {
            (Some(_), _) => "demo",
            (None, Some(_)) => "proxy",
            (None, None) => "page-only",
        }
    }
}
