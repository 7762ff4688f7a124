use std::sync::Arc;

use redial_queue::durable::Store;

/// What the pages show. A part that is absent has no page.
#[derive(Clone, Default)]
pub struct App {
    /// The store of the queues.
    pub store: Option<Arc<dyn Store>>,
}
