use std::future::{Future, Pending};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use redial_core::Time;
use redial_core::decide::Classifier;

use crate::attempt::Attempt;
use crate::clock::Tokio;
use crate::error::Error;
use crate::inside::{Inside, during};
use crate::retry::Retry;
use crate::session::{Judged, Session, Step, judge};
use crate::timer::{Within, sleep};

impl<C> Retry<C> {
    /// Runs an async operation on tokio.
    ///
    /// An attempt that takes longer than its timeout is dropped. Dropping the returned future ends the
    /// call and gives back what it was charged and had not sent; a [parked](crate::Draft::park) call leaves at once. Waits and timeouts have the resolution
    /// of tokio's timer, which is 1 ms, rounded up. If the operation changes a value that it borrows, use
    /// [`run_with`](Self::run_with).
    ///
    /// A policy with [`hedge`](crate::Draft::hedge), as the default is, sends another attempt beside a slow one, if repeating is
    /// safe. The first success wins, and the other attempts are dropped.
    ///
    /// # Panics
    ///
    /// When it has to wait outside of a tokio runtime with its timer enabled, as every timer of tokio does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
    /// use redial::decide::{Class, Classify, Failure};
    /// use redial::{Policy, Retry};
    ///
    /// #[derive(Debug)]
    /// struct Unavailable;
    ///
    /// impl Classify for Unavailable {
    ///     fn classify(&self) -> Failure {
    ///         Failure::new(Class::Overloaded)
    ///     }
    /// }
    ///
    /// let retry = Retry::new(Policy::standard()).idempotent();
    /// let answer = retry
    ///     .run(|attempt| async move {
    ///         if attempt.number() < 3 { Err(Unavailable) } else { Ok(42) }
    ///     })
    ///     .await;
    /// assert_eq!(answer.unwrap(), 42);
    /// # }
    /// ```
    #[inline]
    pub fn run<T, E, F, Fut>(&self, op: F) -> impl Future<Output = Result<T, Error<C::Cause>>>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classifier<T, E>,
    {
        self.drive(Plain(op))
    }

    /// As [`run`](Self::run), with a context that every attempt borrows in turn: a connection, a cursor,
    /// a buffer.
    ///
    /// It does not hedge, because two attempts cannot borrow the context at once.
    ///
    /// Today's compiler can spawn it only when the value and error types have no lifetime and no trait
    /// object in them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
    /// use redial::{Policy, Retry};
    ///
    /// let retry = Retry::new(Policy::standard()).retry_if(|_: &&str| true);
    /// let mut seen = Vec::new();
    /// let answer = retry
    ///     .run_with(&mut seen, async |seen, attempt| {
    ///         seen.push(attempt.number());
    ///         if seen.len() < 3 { Err("not enough") } else { Ok(seen.len()) }
    ///     })
    ///     .await;
    /// assert_eq!(answer.unwrap(), 3);
    /// assert_eq!(seen, [1, 2, 3]);
    /// # }
    /// ```
    pub fn run_with<X, T, E, F>(
        &self,
        context: &mut X,
        op: F,
    ) -> impl Future<Output = Result<T, Error<C::Cause>>>
    where
        F: AsyncFnMut(&mut X, Attempt) -> Result<T, E>,
        C: Classifier<T, E>,
    {
        self.drive(Lending(context, op, PhantomData))
    }

    /// The first attempt, which is all that most calls make.
    #[inline]
    async fn drive<T, E, O>(&self, mut op: O) -> Result<T, Error<C::Cause>>
    where
        O: Operation<Output = Result<T, E>>,
        C: Classifier<T, E>,
    {
        let now = self.now::<Tokio>();
        let Some(mut fast) = self.fast_attempt::<Tokio>(now) else {
            let call = Apart { call: self.drive_session(now, &mut op) };
            return call.await.map_err(Error::adapt::<T, C>);
        };
        let (session, step, cause) = {
            let (first, start) = op.start(fast.attempt(self));
            let mut first = pin!(first);
            let until = || fast.until(self, start.is_some());
            let judged = match Within::new(first.as_mut(), until).await {
                None => None,
                Some(result) => match judge(self, Some(result)) {
                    Judged::Value(value) => {
                        fast.succeed(self);
                        return Ok(value);
                    }
                    judged => Some(judged),
                },
            };
            let (mut session, mut cause) = (fast.hand_over(self), None);
            let step = match (judged, start) {
                (None, Some(start)) if !session.is_expired() => {
                    let call = self.race(&mut session, first, start, &mut cause);
                    Box::pin(Apart { call }).await
                }
                (judged, _) => {
                    session.settle(judged.unwrap_or_else(|| judge(self, None)), &mut cause)
                }
            };
            // The attempt is dropped before the wait.
            (session, step, cause)
        };
        let call = self.retry(session, step, cause, &mut op);
        Box::pin(Apart { call }).await.map_err(Error::adapt::<T, C>)
    }

    /// The same for an attempt that does not take the fast path.
    async fn drive_session<T, E, O>(&self, now: Time, op: &mut O) -> Result<T, Error<E>>
    where
        O: Operation<Output = Result<T, E>>,
        C: Classifier<T, E>,
    {
        let (mut session, mut cause) = (Session::start(self, now, self.latest()), None);
        match self.attempt(&mut session, op, &mut cause).await {
            Step::Return(answer) => answer,
            step => Box::pin(self.retry(session, step, cause, op)).await,
        }
    }

    /// Everything after an attempt.
    async fn retry<T, E, O>(
        &self,
        mut session: Session<&Self, C, Tokio>,
        mut step: Step<T, E>,
        mut cause: Option<E>,
        op: &mut O,
    ) -> Result<T, Error<E>>
    where
        O: Operation<Output = Result<T, E>>,
        C: Classifier<T, E>,
    {
        loop {
            match step {
                Step::Return(answer) => return answer,
                Step::WaitUntil(until) => sleep(until).await,
                Step::InFlight => {}
            }
            step = self.attempt(&mut session, op, &mut cause).await;
        }
    }

    /// One attempt, and the hedges beside it.
    async fn attempt<T, E, O>(
        &self,
        session: &mut Session<&Self, C, Tokio>,
        op: &mut O,
        cause: &mut Option<E>,
    ) -> Step<T, E>
    where
        O: Operation<Output = Result<T, E>>,
        C: Classifier<T, E>,
    {
        let (op, start) = match session.admit(cause).await {
            Err(error) => return Step::Return(Err(error)),
            Ok(attempt) => during(session.current().as_ref(), || op.start(attempt)),
        };
        let mut op = pin!(Inside::new(op, session.current()));
        let until = || session.until(start.is_some());
        match (Within::new(op.as_mut(), until).await, start) {
            (None, Some(start)) if !session.is_expired() => {
                Box::pin(self.race(session, op, start, cause)).await
            }
            (result, _) => session.settle(judge(self, result), cause),
        }
    }
}

/// The operation, with or without a context that its attempts borrow in turn.
///
/// The output is an associated type: as parameters of the trait, value and error types with lifetimes in them
/// would keep the future from being `Send`.
trait Operation {
    type Output;
    /// An attempt that others can be in flight beside.
    type Coexisting: Future<Output = Self::Output>;

    /// Starts an attempt. Returns also what starts others beside it; `None` if they borrow a context in turn.
    fn start(
        &mut self,
        attempt: Attempt,
    ) -> (impl Future<Output = Self::Output>, Option<impl FnMut(Attempt) -> Self::Coexisting>);
}

struct Plain<F>(F);

impl<F: FnMut(Attempt) -> Fut, Fut: Future> Operation for Plain<F> {
    type Output = Fut::Output;
    type Coexisting = Fut;

    #[inline(always)]
    fn start(
        &mut self,
        attempt: Attempt,
    ) -> (impl Future<Output = Fut::Output>, Option<impl FnMut(Attempt) -> Fut>) {
        ((self.0)(attempt), Some(&mut self.0))
    }
}

struct Lending<'a, X, F, R>(&'a mut X, F, PhantomData<fn() -> R>);

impl<X, R, F: AsyncFnMut(&mut X, Attempt) -> R> Operation for Lending<'_, X, F, R> {
    type Output = R;
    type Coexisting = Pending<R>;

    #[inline(always)]
    fn start(
        &mut self,
        attempt: Attempt,
    ) -> (impl Future<Output = R>, Option<impl FnMut(Attempt) -> Pending<R>>) {
        ((self.1)(self.0, attempt), None::<fn(Attempt) -> Pending<R>>)
    }
}

pin_project! {
    /// A part of a call that most calls do not have. It is polled out of line, so that the others stay small.
    pub(crate) struct Apart<F> {
        #[pin]
        pub(crate) call: F,
    }
}

impl<F: Future> Future for Apart<F> {
    type Output = F::Output;

    #[cold]
    #[inline(never)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().call.poll(cx)
    }
}
