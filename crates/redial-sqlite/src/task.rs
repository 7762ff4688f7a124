//! A request to one of the store's threads, with a channel for its reply.

use tokio::sync::oneshot;

use crate::access::Access;
use crate::fault::SqliteFault;

/// A request, whatever the type of its reply is.
pub(crate) trait Task: Send {
    /// Whether the caller still waits for the reply.
    fn is_wanted(&self) -> bool;

    /// Executes the request and keeps its value.
    fn run(&mut self, access: &mut Access<'_>) -> Result<(), SqliteFault>;

    /// Sends the value to the caller, or the error that kept it from being committed.
    fn reply(self: Box<Self>, result: Result<(), SqliteFault>);
}

/// A message to the writer.
pub(crate) enum Message {
    /// Execute a request.
    Do(Box<dyn Task>),
    /// A worker has started to wait for changes.
    Poll,
    /// Move the rest of the log into the file, so that the log starts from its beginning.
    Flush,
    /// Execute the requests before this one, and end.
    Close,
}

struct Request<F, T> {
    work: Option<F>,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, SqliteFault>>,
}

/// A request, and the channel on which its reply arrives.
pub(crate) fn task<T, F>(work: F) -> (Box<dyn Task>, oneshot::Receiver<Result<T, SqliteFault>>)
where
    F: FnOnce(&mut Access<'_>) -> Result<T, SqliteFault> + Send + 'static,
    T: Send + 'static,
{
    let (reply, receiver) = oneshot::channel();
    (Box::new(Request { work: Some(work), value: None, reply }), receiver)
}

impl<T, F> Task for Request<F, T>
where
    F: FnOnce(&mut Access<'_>) -> Result<T, SqliteFault> + Send,
    T: Send,
{
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, access: &mut Access<'_>) -> Result<(), SqliteFault> {
        if let Some(work) = self.work.take() {
            self.value = Some(work(access)?);
        }
        Ok(())
    }

    fn reply(self: Box<Self>, result: Result<(), SqliteFault>) {
        let Self { value, reply, .. } = *self;
        let missing = || SqliteFault::Stop("it was closed before it replied".to_owned());
        // The caller may have given up.
        let _ = reply.send(result.and_then(|()| value.ok_or_else(missing)));
    }
}
