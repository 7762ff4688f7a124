use std::future::{Future, Pending, pending};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use redial_core::decide::Classifier;
use redial_core::{NEVER, Nanos};
use tokio::time::{Sleep, sleep_until};

use crate::attempt::Attempt;
use crate::clock::{Clock, Tokio};
use crate::error::Error;
use crate::retry::Retry;
use crate::session::{Brought, Live, Passed, Step, judge, pass};

impl<C> Retry<C> {
    /// Runs an async operation on tokio.
    ///
    /// An attempt that takes longer than its timeout is dropped. Dropping the returned future ends the
    /// call and gives back what it was charged and had not sent. Waits and timeouts have the resolution
    /// of tokio's timer, which is 1 ms, rounded up.
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
    pub fn run<T, E, F, Fut>(&self, op: F) -> impl Future<Output = Result<T, Error<E>>>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        C: Classifier<T, E>,
    {
        Run { retry: self, op, held: Held::Nothing, cause: None, stage: Stage::Start }
    }

    /// As [`run`](Self::run), with a context that every attempt borrows in turn: a connection, a cursor,
    /// a buffer.
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
    pub async fn run_with<X, T, E, F>(&self, context: &mut X, mut op: F) -> Result<T, Error<E>>
    where
        F: AsyncFnMut(&mut X, Attempt) -> Result<T, E>,
        C: Classifier<T, E>,
    {
        let mut live = Live::<C, Tokio>::start(self, Tokio::now())?;
        let (mut attempt, mut cause) = (live.attempt(), None);
        loop {
            let result = within(op(context, attempt), attempt.expires).await;
            let step = match judge(self, result) {
                Brought::Value(value) => {
                    live.win();
                    return Ok(value);
                }
                Brought::Failure(outcome, error) => live.fail(&outcome, error, &mut cause),
            };
            match step {
                Step::Fail(error) => return Err(error),
                Step::WaitUntil(until) => sleep(until).await,
                Step::InFlight => {}
            }
            attempt = match live.next() {
                Ok(attempt) => attempt,
                Err(reason) => return Err(live.error(reason, cause)),
            };
        }
    }
}

pin_project! {
    /// A call. Written by hand so that one whose first attempt succeeds makes no session: an async block
    /// would write it down before the first poll.
    struct Run<'a, C, F, Fut, E> {
        retry: &'a Retry<C>,
        op: F,
        held: Held<'a, C>,
        cause: Option<E>,
        #[pin]
        stage: Stage<Fut>,
    }
}

/// What the call holds while it is on its way.
enum Held<'a, C> {
    Nothing,
    /// A first attempt that went the short way.
    Passed(Passed),
    Session(Live<'a, C, Tokio>),
}

pin_project! {
    #[project = StageProjection]
    enum Stage<Fut> {
        Start,
        Attempt { #[pin] op: Within<Fut> },
        Wait { #[pin] timer: Within<Pending<()>> },
        Over,
    }
}

impl<T, E, C, F, Fut> Future for Run<'_, C, F, Fut, E>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classifier<T, E>,
{
    type Output = Result<T, Error<E>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.as_mut().project();
        if matches!(*this.stage, Stage::Start) {
            let attempt = match pass::<C, Tokio>(this.retry) {
                Ok(passed) => {
                    *this.held = Held::Passed(passed);
                    passed.attempt(this.retry)
                }
                Err(now) => {
                    let live = Live::start(this.retry, now)?;
                    let attempt = live.attempt();
                    *this.held = Held::Session(live);
                    attempt
                }
            };
            this.stage.set(Stage::Attempt { op: within((this.op)(attempt), attempt.expires) });
        }
        if let (Held::Passed(passed), StageProjection::Attempt { op }) =
            (&*this.held, this.stage.as_mut().project())
        {
            return match judge(this.retry, ready!(op.poll(cx))) {
                Brought::Value(value) => {
                    passed.succeed::<C, Tokio>(this.retry);
                    this.stage.set(Stage::Over);
                    Poll::Ready(Ok(value))
                }
                brought => {
                    *this.held = Held::Session(Live::resume(this.retry, *passed));
                    self.go_on(Some(brought), cx)
                }
            };
        }
        self.go_on(None, cx)
    }
}

impl<T, E, C, F, Fut> Run<'_, C, F, Fut, E>
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classifier<T, E>,
{
    /// All that does not go the short way. `brought` is what an attempt just brought.
    #[inline(never)]
    fn go_on(
        self: Pin<&mut Self>,
        mut brought: Option<Brought<T, E>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, Error<E>>> {
        let mut this = self.project();
        let Held::Session(live) = this.held else { return Poll::Pending };
        let result = loop {
            match brought.take() {
                Some(Brought::Value(value)) => {
                    live.win();
                    break Ok(value);
                }
                Some(Brought::Failure(outcome, error)) => {
                    match live.fail(&outcome, error, this.cause) {
                        Step::Fail(error) => break Err(error),
                        Step::WaitUntil(until) => {
                            this.stage.set(Stage::Wait { timer: within(pending(), until) });
                        }
                        Step::InFlight => {}
                    }
                }
                None => {}
            }
            match this.stage.as_mut().project() {
                StageProjection::Attempt { op } => {
                    brought = Some(judge(this.retry, ready!(op.poll(cx))));
                }
                StageProjection::Wait { timer } => {
                    ready!(timer.poll(cx));
                    match live.next() {
                        Ok(attempt) => {
                            let op = within((this.op)(attempt), attempt.expires);
                            this.stage.set(Stage::Attempt { op });
                        }
                        Err(reason) => break Err(live.error(reason, this.cause.take())),
                    }
                }
                StageProjection::Start | StageProjection::Over => return Poll::Pending,
            }
        };
        this.stage.set(Stage::Over);
        *this.held = Held::Nothing;
        Poll::Ready(result)
    }
}

/// Tokio's own timer; beyond what its clock can express nothing ever wakes.
#[cold]
fn timer(at: Nanos) -> Option<Sleep> {
    (at != NEVER).then(|| Tokio::instant(at)).flatten().map(sleep_until)
}

pub(crate) async fn sleep(until: Nanos) {
    within(pending::<()>(), until).await;
}

/// `None` when time runs out first.
#[inline]
pub(crate) fn within<F: Future>(op: F, expires: Nanos) -> Within<F> {
    Within { op, expires, timer: None }
}

pin_project! {
    /// An attempt and its timeout. The timer is made when the attempt is first pending: one that is ready
    /// at once never needs it.
    pub(crate) struct Within<F> {
        #[pin]
        op: F,
        expires: Nanos,
        #[pin]
        timer: Option<Sleep>,
    }
}

impl<F: Future> Future for Within<F> {
    type Output = Option<F::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let mut this = self.project();
        if let Poll::Ready(output) = this.op.poll(cx) {
            return Poll::Ready(Some(output));
        }
        if this.timer.is_none() {
            this.timer.set(timer(*this.expires));
        }
        match this.timer.as_pin_mut() {
            Some(timer) => {
                ready!(timer.poll(cx));
                Poll::Ready(None)
            }
            None => Poll::Pending,
        }
    }
}
