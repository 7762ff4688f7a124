//! A limit on waiting that costs nothing unless there is a wait.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use crate::clock;

/// A limit on how long something may stay pending. It costs nothing until something does.
#[derive(Debug, Default)]
pub(crate) struct Timer(Option<Pin<Box<Running>>>);

pin_project! {
    #[derive(Debug)]
    struct Running {
        #[pin]
        sleep: Sleep,
        // The next poll starts it again.
        is_stopped: bool,
    }
}

impl Timer {
    /// Something has happened: the next [`poll`](Self::poll) starts again.
    pub(crate) fn stop(&mut self) {
        if let Some(timer) = &mut self.0 {
            *timer.as_mut().project().is_stopped = true;
        }
    }

    /// Starts the timer unless it runs. Ready when it has run for the limit.
    #[cold]
    pub(crate) fn poll(&mut self, limit: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let new = || Box::pin(Running { sleep: sleep(limit), is_stopped: false });
        let mut timer = self.0.get_or_insert_with(new).as_mut().project();
        if mem::take(timer.is_stopped) {
            timer.sleep.as_mut().reset(clock::now() + limit);
        }
        timer.sleep.poll(cx)
    }
}
