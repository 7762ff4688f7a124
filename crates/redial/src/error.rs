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
    pub(crate) reason: Stop,
    pub(crate) attempts: u32,
    pub(crate) elapsed: Duration,
    pub(crate) failure: Option<Failure>,
    pub(crate) cause: Option<E>,
}

#[cfg(feature = "http-client")]
impl<E> ErrorInner<E> {
    pub(crate) fn with_cause<F>(self, cause: Option<F>) -> ErrorInner<F> {
        let Self { reason, attempts, elapsed, failure, cause: _ } = self;
        ErrorInner { reason, attempts, elapsed, failure, cause }
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
        let (reason, elapsed) = (Stop::Cancelled, Duration::ZERO);
        ErrorInner { reason, attempts: 0, elapsed, failure: None, cause: None }.into()
    }

    /// Why no further attempt was made.
    pub fn reason(&self) -> Stop {
        self.0.reason
    }

    /// How many attempts were made; 0 when a guard refused the first one.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// From the start of the call to its end, waits included.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed
    }

    /// What the engine made of the last attempt. `None` when there was none, or when it said "not yet".
    pub fn failure(&self) -> Option<Failure> {
        self.0.failure
    }

    /// The last error of the operation itself. An attempt that was cut off has none of its own, so this
    /// is then the one before it.
    pub fn cause(&self) -> Option<&E> {
        self.0.cause.as_ref()
    }

    /// The same with another type of cause.
    pub fn map_cause<F>(self, map: impl FnOnce(E) -> F) -> Error<F> {
        let ErrorInner { reason, attempts, elapsed, failure, cause } = *self.0;
        ErrorInner { reason, attempts, elapsed, failure, cause: cause.map(map) }.into()
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
        let ErrorInner { reason, attempts, elapsed, failure, cause } = &*self.0;
        let plural = if *attempts == 1 { "" } else { "s" };
        write!(f, "{reason} (after {attempts} attempt{plural}, {elapsed:.1?})")?;
        if let Some(failure) = failure {
            write!(f, ", last outcome: {}", failure.class.name())?;
        }
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
