use core::marker::PhantomData;

use super::cause::{IntoCause, Plain};
use super::{Class, Failure, Outcome};

/// An error that can be classified.
///
/// Implement it for your error type, and every runner can handle it. If you do not own the type, give
/// the runner a [`Classifier`] instead: a predicate, or a function of the result.
///
/// ```
/// # extern crate redial_core as redial;
/// use redial::decide::{Class, Classify, Failure};
///
/// enum StoreError {
///     Busy,
///     NoSuchRow,
/// }
///
/// impl Classify for StoreError {
///     fn classify(&self) -> Failure {
///         match self {
///             Self::Busy => Failure::new(Class::Overloaded),
///             Self::NoSuchRow => Failure::new(Class::Permanent),
///         }
///     }
/// }
///
/// assert_eq!(StoreError::Busy.classify().class, Class::Overloaded);
/// # assert_eq!(StoreError::NoSuchRow.classify().class, Class::Permanent);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which of its errors may be retried",
    note = "give the `Retry` a predicate, `.retry_if(|error: &{Self}| …)`, or implement `Classify` if the type is yours"
)]
pub trait Classify {
    /// What this error means for repeating the call.
    fn classify(&self) -> Failure;
}

impl<E: Classify + ?Sized> Classify for &E {
    fn classify(&self) -> Failure {
        (**self).classify()
    }
}

/// Classifies the result of an attempt, `Ok` values included.
///
/// [`Judge`] makes one of a closure.
#[diagnostic::on_unimplemented(
    message = "nothing says which errors of type `{E}` may be retried",
    note = "give the `Retry` a predicate, `.retry_if(|error: &{E}| …)`, for errors and strings, or \
            `.classify(|result| …).idempotent()` for any type; if `{E}` is yours, implement `Classify` for it"
)]
pub trait Classifier<T, E>: Causes<E> {
    /// The outcome of the attempt.
    fn outcome(&self, result: &Result<T, E>) -> Outcome;
}

/// What the cause of a failed call is, for a [`Classifier`]: `E` itself, or a wrapper around it.
pub trait Causes<E> {
    /// The cause.
    type Cause;

    /// Turns the last error into the cause.
    fn cause(error: E) -> Self::Cause;
}

/// Classifies with a function.
#[derive(Clone, Copy, Debug)]
pub struct Judge<F>(pub F);

impl<T, E, F: Fn(&Result<T, E>) -> Outcome> Classifier<T, E> for Judge<F> {
    #[inline]
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        (self.0)(result)
    }
}

impl<E, F> Causes<E> for Judge<F> {
    type Cause = E;

    fn cause(error: E) -> E {
        error
    }
}

/// Lets the error classify itself: `Ok` is a success, `Err` is what [`Classify`] returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Typed;

impl<E> Causes<E> for Typed {
    type Cause = E;

    fn cause(error: E) -> E {
        error
    }
}

impl<T, E: Classify> Classifier<T, E> for Typed {
    #[inline]
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(_) => Outcome::Success,
            Err(error) => error.classify().into(),
        }
    }
}

/// Lets a predicate decide whether the error is transient. `Kind` is the kind of error, which
/// [`RetryIf::new`] infers.
#[derive(Clone, Copy, Debug)]
pub struct RetryIf<F, Kind = Plain> {
    transient: F,
    kind: PhantomData<fn() -> Kind>,
}

impl<F, Kind> RetryIf<F, Kind> {
    /// Retries the errors for which `transient` returns true.
    pub fn new<E: IntoCause<Kind>>(transient: F) -> Self
    where
        F: Fn(&E) -> bool,
    {
        Self { transient, kind: PhantomData }
    }
}

impl<E: IntoCause<Kind>, F, Kind> Causes<E> for RetryIf<F, Kind> {
    type Cause = E::Cause;

    fn cause(error: E) -> E::Cause {
        error.into_cause()
    }
}

impl<T, E: IntoCause<Kind>, F: Fn(&E) -> bool, Kind> Classifier<T, E> for RetryIf<F, Kind> {
    #[inline]
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(_) => Outcome::Success,
            Err(error) if (self.transient)(error) => Failure::new(Class::Transient).into(),
            Err(_) => Failure::new(Class::Permanent).into(),
        }
    }
}

/// Polls: an `Ok` value that does not satisfy the predicate is "not yet".
#[derive(Clone, Copy, Debug)]
pub struct PollUntil<C, F> {
    /// Classifies everything else.
    pub inner: C,
    /// Whether polling is done.
    pub done: F,
}

impl<E, C: Causes<E>, F> Causes<E> for PollUntil<C, F> {
    type Cause = C::Cause;

    fn cause(error: E) -> C::Cause {
        C::cause(error)
    }
}

impl<T, E, C: Classifier<T, E>, F: Fn(&T) -> bool> Classifier<T, E> for PollUntil<C, F> {
    #[inline]
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(value) if !(self.done)(value) => Outcome::NotYet(None),
            _ => self.inner.outcome(result),
        }
    }
}
