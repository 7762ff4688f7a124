use std::error;
use std::fmt;
use std::time::Duration;

use redial_core::Stop;
use redial_core::decide::{Classifier, Failure};

/// A call that did not succeed: the last cause, why it stopped there, how many attempts it made and how
/// long it took.
///
/// It prints without its cause, which is its source; `{:#}` prints both. Where `E` is no
/// [`std::error::Error`] itself (a boxed error, a string), [`map_cause`](Self::map_cause) makes it one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error<E>(Box<ErrorInner<E>>);

/// Behind a pointer, so that a successful result is no larger than its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorInner<E> {
    pub(crate) ending: Ending,
    pub(crate) cause: Option<E>,
}

/// How a call ended that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) reason: Stop,
    pub(crate) attempts: u32,
    /// The attempts that the policy allows.
    pub(crate) most: u32,
    pub(crate) elapsed: Duration,
    pub(crate) parked: Duration,
    pub(crate) failure: Option<Failure>,
    /// What a retry cost and what was left, in tokens, if the budget refused it.
    pub(crate) price: Option<(u32, u32)>,
}

impl Ending {
    /// Of a call that has made all of its attempts, if any, in no time.
    pub(crate) fn new(reason: Stop, attempts: u32, failure: Option<Failure>) -> Self {
        let (elapsed, parked) = (Duration::ZERO, Duration::ZERO);
        Self { reason, attempts, most: attempts, elapsed, parked, failure, price: None }
    }
}

impl<E> From<ErrorInner<E>> for Error<E> {
    fn from(inner: ErrorInner<E>) -> Self {
        Self(Box::new(inner))
    }
}

impl<E> Error<E> {
    #[cfg(feature = "http-client")]
    pub(crate) fn into_parts(self) -> ErrorInner<E> {
        *self.0
    }

    /// A call that was cancelled before it began.
    #[cold]
    pub(crate) fn never_begun() -> Self {
        ErrorInner { ending: Ending::new(Stop::Cancelled, 0, None), cause: None }.into()
    }

    /// Why no further attempt was made.
    pub fn reason(&self) -> Stop {
        self.0.ending.reason
    }

    /// How many attempts were made; 0 when a guard refused the first one.
    pub fn attempts(&self) -> u32 {
        self.0.ending.attempts
    }

    /// From the start of the call to its end, waits included.
    pub fn elapsed(&self) -> Duration {
        self.0.ending.elapsed
    }

    /// The total time that the call was parked: no attempt was in flight, and it waited for evidence that the destination
    /// is back. Zero for most calls.
    pub fn parked(&self) -> Duration {
        self.0.ending.parked
    }

    /// The classified failure of the last attempt. `None` if no attempt was made, or if the last one was "not yet".
    pub fn failure(&self) -> Option<Failure> {
        self.0.ending.failure
    }

    /// The last error of the operation itself. An attempt that was cut off has none of its own, so this
    /// is then the one before it.
    pub fn cause(&self) -> Option<&E> {
        self.0.cause.as_ref()
    }

    /// The same with another type of cause.
    pub fn map_cause<F>(self, map: impl FnOnce(E) -> F) -> Error<F> {
        let ErrorInner { ending, cause } = *self.0;
        ErrorInner { ending, cause: cause.map(map) }.into()
    }

    /// With the cause that the classifier makes of it.
    ///
    /// Runners convert at the very end: a future that holds a `C::Cause` is not `Send` when `E` has a lifetime in it.
    #[cold]
    pub(crate) fn adapt<T, C: Classifier<T, E>>(self) -> Error<C::Cause> {
        self.map_cause(C::cause)
    }

    /// The last error of the operation itself, by value.
    pub fn into_cause(self) -> Option<E> {
        self.0.cause
    }
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorInner { ending, cause } = &*self.0;
        ending.fmt(f)?;
        match cause {
            Some(cause) if f.alternate() => write!(f, ": {cause}"),
            _ => Ok(()),
        }
    }
}

impl<E: error::Error + 'static> error::Error for Error<E> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.cause.as_ref().map(|cause| cause as _)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, attempts, most, elapsed, parked, failure, price } = self;
        let elapsed = Prose(*elapsed);
        match (*attempts, *most) {
            (0, _) => write!(f, "gave up before the first attempt: {reason}")?,
            (made, most) if most > made && most < u32::MAX => {
                write!(f, "gave up after {made} of {most} attempts in {elapsed}: {reason}")?;
            }
            (made, _) => {
                let plural = if made == 1 { "" } else { "s" };
                write!(f, "gave up after {made} attempt{plural} in {elapsed}: {reason}")?;
            }
        }
        if let Some((cost, left)) = price {
            write!(f, " (a retry costs {cost} tokens, {left} are left; successes earn more)")?;
        }
        if !parked.is_zero() {
            write!(f, "; waited {} for the destination to recover", Prose(*parked))?;
        }
        match failure {
            Some(failure) => write!(f, "; last outcome: {}", failure.class.name()),
            None => Ok(()),
        }
    }
}

/// A duration in a sentence.
struct Prose(Duration);

impl fmt::Display for Prose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            short if short < Duration::from_secs(1) => write!(f, "{} ms", short.as_millis()),
            long => write!(f, "{:.1} s", long.as_secs_f64()),
        }
    }
}
