//! The proxy as a whole: its start, its threads, another file while it runs, and its end.

mod background;
mod file_watch;
mod health_checks;
pub(crate) mod options;
pub(crate) mod proxy;
mod reload;
mod threads;
