//! A question to a thread, and the way for its answer.

use tokio::sync::oneshot;

use super::fault::Fault;
use super::step::Step;
use crate::durable::StoreError;

/// A question, whatever its answer is.
pub(super) trait Task: Send {
    /// Whether anybody waits for the answer.
    fn is_wanted(&self) -> bool;

    /// Finds the answer, and keeps it.
    fn run(&mut self, step: &mut Step<'_>) -> Result<(), Fault>;

    /// Hands the answer out, or says why there is none.
    fn answer(self: Box<Self>, fate: Result<(), StoreError>);
}

struct Ask<F, T> {
    work: Option<F>,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

/// A question, and where its answer will be.
pub(super) fn ask<T, F>(work: F) -> (Box<dyn Task>, oneshot::Receiver<Result<T, StoreError>>)
where
    F: FnOnce(&mut Step<'_>) -> Result<T, Fault> + Send + 'static,
    T: Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Ask { work: Some(work), value: None, reply }), answer)
}

impl<T, F> Task for Ask<F, T>
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

    fn answer(self: Box<Self>, fate: Result<(), StoreError>) {
        let gone = || StoreError::Stopped("it was closed before it had answered".to_owned());
        // Nobody may be waiting any more.
        let Self { value, reply, .. } = *self;
        let _ = reply.send(fate.and_then(|()| value.ok_or_else(gone)));
    }
}
