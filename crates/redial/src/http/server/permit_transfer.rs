//! A place belongs to work that is being done, and some work goes on when its caller has left: a request
//! with an idempotency key is executed to its end. If its place were free then, callers who hang up and come
//! back could have any number of handlers running behind a limit.
//!
//! Whoever drops a future that holds a place offers the place while that is being dropped, and what is inside
//! and has work that goes on takes it. It costs nothing while nobody leaves.

use std::cell::Cell;

use tokio::sync::oneshot::{self, Receiver, Sender};

/// Something to be dropped when the work is done. Those that were offered around it come along.
pub(super) struct Held(#[allow(dead_code, reason = "it is there to be dropped")] Box<dyn Send>);

thread_local!(static OFFERED: Cell<Option<Held>> = const { Cell::new(None) });

/// Drops what is inside, and `held` with it unless somebody in there keeps it.
pub(super) fn offer(held: impl Send + 'static, drop_inside: impl FnOnce()) {
    struct Withdraw;
    impl Drop for Withdraw {
        fn drop(&mut self) {
            drop(take());
        }
    }
    let held = Held(Box::new((held, take())));
    // A thread that is ending has no such place any more.
    let _ = OFFERED.try_with(|offered| offered.set(Some(held)));
    let _withdraw = Withdraw;
    drop_inside();
}

fn take() -> Option<Held> {
    OFFERED.try_with(Cell::take).ok().flatten()
}

/// One end for the future that may be dropped, and one for the work that goes on.
pub(super) fn pair() -> (Leaving, Staying) {
    let (sender, receiver) = oneshot::channel();
    (Leaving(Some(sender)), Staying(receiver))
}

/// When it is dropped, what is offered goes to the work, if that still goes on.
pub(super) struct Leaving(Option<Sender<Held>>);

/// Keeps what was handed over.
pub(super) struct Staying(#[allow(dead_code, reason = "it is there to be dropped")] Receiver<Held>);

impl Drop for Leaving {
    fn drop(&mut self) {
        if let (Some(work), Some(held)) = (self.0.take(), take()) {
            drop(work.send(held));
        }
    }
}
