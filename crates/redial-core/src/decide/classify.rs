use core::marker::PhantomData;

use super::cause::{IntoCause, Plain};
use super::{Class, Failure, Outcome};

/// An error that can be classified.
///
/// Implement it for your error type, and every runner can handle it. If you do not own the type, give
/// the runner a [`Classifier`] instead.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which of its errors may be retried",
    note = "implement `Classify` for it, or give the `Retry` a predicate with `.retry_if(|error: &{Self}| …)`"
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
/// Any `Fn(&Result<T, E>) -> Outcome` is a classifier.
#[diagnostic::on_unimplemented(
    message = "nothing says which errors of type `{E}` may be retried",
    note = "implement `Classify` for `{E}`, or use `.retry_if(|error: &{E}| …)`"
)]
pub trait Classifier<T, E> {
    /// The cause of a failed call: `E`, or a wrapper around it.
    type Cause;

    /// The outcome of the attempt.
    fn outcome(&self, result: &Result<T, E>) -> Outcome;

    /// Turns the last error into the cause of the failed call.
    fn cause(error: E) -> Self::Cause;
}

impl<T, E, F: Fn(&Result<T, E>) -> Outcome> Classifier<T, E> for F {
    type Cause = E;

    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        self(result)
    }

    fn cause(error: E) -> E {
        error
    }
}

/// Lets the error classify itself: `Ok` is a success, `Err` is what [`Classify`] returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Typed;

impl<T, E: Classify> Classifier<T, E> for Typed {
    type Cause = E;

    #[inline]
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(_) => Outcome::Success,
            Err(error) => error.classify().into(),
        }
    }

    fn cause(error: E) -> E {
        error
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

impl<T, E: IntoCause<Kind>, F: Fn(&E) -> bool, Kind> Classifier<T, E> for RetryIf<F, Kind> {
    type Cause = E::Cause;

    #[inline]
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(_) => Outcome::Success,
            Err(error) if (self.transient)(error) => Failure::new(Class::Transient).into(),
            Err(_) => Failure::new(Class::Permanent).into(),
        }
    }

    fn cause(error: E) -> E::Cause {
        error.into_cause()
    }
}

/// Polls: an `Ok` value that does not satisfy the predicate is "not yet".
#[derive(Clone, Copy, Debug)]
pub struct Until<C, F> {
    /// Classifies everything else.
    pub inner: C,
    /// Whether polling is done.
    pub done: F,
}

impl<T, E, C: Classifier<T, E>, F: Fn(&T) -> bool> Classifier<T, E> for Until<C, F> {
    type Cause = C::Cause;

    #[inline]
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(value) if !(self.done)(value) => Outcome::NotYet(None),
            _ => self.inner.outcome(result),
        }
    }

    fn cause(error: E) -> C::Cause {
        C::cause(error)
    }
}
