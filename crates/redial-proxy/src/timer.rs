//! A limit on waiting that costs nothing unless there is a wait.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::clock;

/// A limit on how long something may stay pending. It costs nothing until something does.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    is_running: bool,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Something has happened: the next [`poll`](Self::poll) starts again.
    pub(crate) fn stop(&mut self) {
        self.is_running = false;
    }

    /// Starts the timer unless it runs. Ready when it has run for the limit.
    #[cold]
    pub(crate) fn poll(&mut self, limit: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.sleep.get_or_insert_with(|| Box::pin(sleep(limit)));
        if !self.is_running {
            self.is_running = true;
            timer.as_mut().reset(clock::now() + limit);
        }
        timer.as_mut().poll(cx)
    }
}
