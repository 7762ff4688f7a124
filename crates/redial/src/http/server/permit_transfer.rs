//! A permit belongs to running work, and some work continues after its caller has disconnected: a request with an
//! idempotency key is executed to its end. If its permit were released at the disconnect, clients that hang up and
//! reconnect could start any number of handlers behind a limit.
//!
//! So a future that holds a permit offers it while its inner future is dropped, and work that continues takes it. The
//! offer passes through a thread-local, because other layers' futures lie in between. It costs nothing while no caller
//! disconnects.

use std::cell::Cell;

use tokio::sync::oneshot::{self, Receiver, Sender};

/// A value that is dropped when the work is done, together with the offers of outer layers.
pub(super) struct Offer(#[allow(dead_code, reason = "held until it is dropped")] Box<dyn Send>);

thread_local!(static OFFERED: Cell<Option<Offer>> = const { Cell::new(None) });

/// Drops the inner future, and then `permit` unless continuing work has taken it.
pub(super) fn offer(permit: impl Send + 'static, drop_inner: impl FnOnce()) {
    struct Withdraw;
    impl Drop for Withdraw {
        fn drop(&mut self) {
            drop(take());
        }
    }
    let offer = Offer(Box::new((permit, take())));
    // A thread that is shutting down has no thread-local any more.
    let _ = OFFERED.try_with(|offered| offered.set(Some(offer)));
    let _withdraw = Withdraw;
    drop_inner();
}

fn take() -> Option<Offer> {
    OFFERED.try_with(Cell::take).ok().flatten()
}

/// One end for the future that may be dropped, and one for the work that continues.
pub(super) fn channel() -> (Forwarder, Holder) {
    let (sender, receiver) = oneshot::channel();
    (Forwarder(Some(sender)), Holder(receiver))
}

/// When dropped, sends the current offer to the work if that is still running.
pub(super) struct Forwarder(Option<Sender<Offer>>);

/// Holds the transferred offer.
pub(super) struct Holder(#[allow(dead_code, reason = "held until it is dropped")] Receiver<Offer>);

impl Drop for Forwarder {
    fn drop(&mut self) {
        if let (Some(work), Some(offer)) = (self.0.take(), take()) {
            drop(work.send(offer));
        }
    }
}
