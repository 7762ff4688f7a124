use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use redial_core::decide::Classifier;
use redial_core::{Span, Time};

use crate::attempt::Attempt;
use crate::clock::{Clock as _, Monotonic};
use crate::error::Error;
use crate::retry::Retry;
use crate::session::{Judged, Session, Step, judge};
use crate::spans::Current;

impl<C> Retry<C> {
    /// Runs a blocking operation on this thread.
    ///
    /// Nothing can interrupt the operation itself: hand [`Attempt::timeout`] to its socket. Waits have
    /// the resolution of the operating system's sleep, which on Linux is about 0.1 ms. It does not hedge: a thread makes one
    /// attempt at a time. A [parked](crate::Draft::park) call blocks its thread, so a call parks only while fewer than 64 calls are
    /// parked for the destination.
    ///
    /// ```
    /// use std::net::TcpStream;
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    /// # let address = listener.local_addr().unwrap();
    /// use redial::{Policy, Retry};
    ///
    /// // A connection may be made twice: also one that timed out, or found its host unreachable.
    /// let retry = Retry::new(Policy::standard()).idempotent();
    /// let stream = retry.run_blocking(|attempt| match attempt.timeout() {
    ///     Some(timeout) => TcpStream::connect_timeout(&address, timeout),
    ///     None => TcpStream::connect(address),
    /// });
    /// assert!(stream.is_ok());
    /// ```
    #[inline]
    pub fn run_blocking<T, E, F>(&self, op: F) -> Result<T, Error<C::Cause>>
    where
        F: FnMut(Attempt) -> Result<T, E>,
        C: Classifier<T, E>,
    {
        self.block(op, None)
    }

    /// As [`run_blocking`](Self::run_blocking), until `token` is cancelled: that wakes the wait, and no
    /// further attempt is made.
    #[inline]
    pub fn run_blocking_with<T, E, F>(
        &self,
        token: &CancelToken,
        op: F,
    ) -> Result<T, Error<C::Cause>>
    where
        F: FnMut(Attempt) -> Result<T, E>,
        C: Classifier<T, E>,
    {
        self.block(op, Some(token))
    }

    /// The first attempt, which is all that most calls make.
    #[inline(always)]
    fn block<T, E, F>(&self, mut op: F, token: Option<&CancelToken>) -> Result<T, Error<C::Cause>>
    where
        F: FnMut(Attempt) -> Result<T, E>,
        C: Classifier<T, E>,
    {
        if token.is_some_and(CancelToken::is_cancelled) {
            return Err(Error::never_begun());
        }
        let now = self.now::<Monotonic>();
        let (session, judged) = if let Some(mut fast) = self.fast_attempt::<Monotonic>(now) {
            match judge(self, Some(op(fast.attempt(self)))) {
                Judged::Value(value) => {
                    fast.succeed(self);
                    return Ok(value);
                }
                judged => (fast.hand_over(self), Some(judged)),
            }
        } else {
            (Session::start(self, now, self.latest()), None)
        };
        self.retry_blocking(session, judged, op, token).map_err(Error::adapt::<T, C>)
    }

    /// Everything but the fast path. `judged` is the result of the first attempt, if it was made.
    #[inline(never)]
    fn retry_blocking<T, E, F>(
        &self,
        mut session: Session<&Self, C, Monotonic>,
        judged: Option<Judged<T, E>>,
        mut op: F,
        token: Option<&CancelToken>,
    ) -> Result<T, Error<E>>
    where
        F: FnMut(Attempt) -> Result<T, E>,
        C: Classifier<T, E>,
    {
        let mut cause = None;
        let mut judged = match judged {
            Some(judged) => judged,
            None => {
                let attempt = match session.first()? {
                    Some(attempt) => attempt,
                    None => next(&mut session, token, &mut cause)?,
                };
                judge(self, Some(inside(session.current(), || op(attempt))))
            }
        };
        loop {
            match session.settle(judged, &mut cause) {
                Step::Return(result) => return result,
                Step::WaitUntil(until) => pause(until, token),
                Step::InFlight => {}
            }
            let attempt = next(&mut session, token, &mut cause)?;
            judged = judge(self, Some(inside(session.current(), || op(attempt))));
        }
    }
}

/// Makes an attempt inside its span, if it has one.
#[inline(always)]
fn inside<T>(current: Option<Current>, op: impl FnOnce() -> T) -> T {
    match current {
        Some(current) => current.during(op),
        None => op(),
    }
}

#[cold]
fn pause(until: Time, token: Option<&CancelToken>) {
    let wait = (until - Monotonic::now()).into();
    match token {
        Some(token) => token.wait(wait),
        #[allow(clippy::disallowed_methods, reason = "there is no token that could wake it")]
        None => thread::sleep(wait),
    }
}

/// The next attempt, when it is admitted.
fn next<C, E>(
    session: &mut Session<&Retry<C>, C, Monotonic>,
    token: Option<&CancelToken>,
    cause: &mut Option<E>,
) -> Result<Attempt, Error<E>> {
    loop {
        if session.is_parked() {
            await_turn(session, token, cause)?;
        }
        if token.is_some_and(CancelToken::is_cancelled) {
            return Err(session.cancel(cause));
        }
        if let Some(attempt) = session.next(cause)? {
            return Ok(attempt);
        }
    }
}

/// Waits until a parked call may go on, or the token is cancelled.
#[cold]
fn await_turn<C, E>(
    session: &mut Session<&Retry<C>, C, Monotonic>,
    token: Option<&CancelToken>,
    cause: &mut Option<E>,
) -> Result<(), Error<E>> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let _parked = token.map(ParkedThread::new);
    while !token.is_some_and(CancelToken::is_cancelled)
        && let Some(until) = session.ask(&waker, cause)?
    {
        // A waker that was woken in the meantime makes this return at once.
        thread::park_timeout(until.left(Monotonic::now()).cap(Span::MAX).into());
    }
    Ok(())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The thread of a parked call that a token wakes.
struct ParkedThread<'a>(&'a CancelToken);

impl<'a> ParkedThread<'a> {
    fn new(token: &'a CancelToken) -> Self {
        token.parked().push(thread::current());
        Self(token)
    }
}

impl Drop for ParkedThread<'_> {
    fn drop(&mut self) {
        let mut parked = self.0.parked();
        let own = thread::current().id();
        if let Some(place) = parked.iter().position(|thread| thread.id() == own) {
            parked.swap_remove(place);
        }
    }
}

/// Ends blocking calls from another thread. Clones are the same token.
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    state: Arc<TokenState>,
}

#[derive(Debug, Default)]
struct TokenState {
    cancelled: AtomicBool,
    /// The threads of parked calls. Locked while `cancelled` is set, so that no wait starts in between.
    parked: Mutex<Vec<Thread>>,
    wake: Condvar,
}

impl CancelToken {
    /// A token that has not been cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the calls that hold this token, and wakes waiting ones.
    pub fn cancel(&self) {
        let parked = self.parked();
        self.state.cancelled.store(true, Ordering::Release);
        self.state.wake.notify_all();
        parked.iter().for_each(Thread::unpark);
    }

    /// Whether it has been cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.state.cancelled.load(Ordering::Acquire)
    }

    fn wait(&self, wait: Duration) {
        let waiting = |_: &mut Vec<Thread>| !self.is_cancelled();
        drop(self.state.wake.wait_timeout_while(self.parked(), wait, waiting));
    }

    fn parked(&self) -> MutexGuard<'_, Vec<Thread>> {
        self.state.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
