//! A request to one of the store's threads, with a channel for its reply.

use tokio::sync::oneshot;

use super::fault::Fault;
use super::step::Step;
use crate::durable::StoreError;

/// A request, whatever the type of its reply is.
pub(super) trait Task: Send {
    /// Whether the caller still waits for the reply.
    fn is_wanted(&self) -> bool;

    /// Executes the request and keeps its value.
    fn run(&mut self, step: &mut Step<'_>) -> Result<(), Fault>;

    /// Sends the value to the caller, or the error that kept it from being committed.
    fn reply(self: Box<Self>, result: Result<(), StoreError>);
}

struct Request<F, T> {
    work: Option<F>,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

/// A request, and the channel on which its reply arrives.
pub(super) fn task<T, F>(work: F) -> (Box<dyn Task>, oneshot::Receiver<Result<T, StoreError>>)
where
    F: FnOnce(&mut Step<'_>) -> Result<T, Fault> + Send + 'static,
    T: Send + 'static,
{
    let (reply, receiver) = oneshot::channel();
    (Box::new(Request { work: Some(work), value: None, reply }), receiver)
}

impl<T, F> Task for Request<F, T>
where
    F: FnOnce(&mut Step<'_>) -> Result<T, Fault> + Send,
    T: Send,
{
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, step: &mut Step<'_>) -> Result<(), Fault> {
        if let Some(work) = self.work.take() {
            self.value = Some(work(step)?);
        }
        Ok(())
    }

    fn reply(self: Box<Self>, result: Result<(), StoreError>) {
        let Self { value, reply, .. } = *self;
        let missing = || StoreError::Stopped("it was closed before it replied".to_owned());
        // The caller may have given up.
        let _ = reply.send(result.and_then(|()| value.ok_or_else(missing)));
    }
}
