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
    /// The outcome of the attempt.
    fn outcome(&self, result: &Result<T, E>) -> Outcome;
}

impl<T, E, F: Fn(&Result<T, E>) -> Outcome> Classifier<T, E> for F {
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        self(result)
    }
}

/// Lets the error classify itself: `Ok` is a success, `Err` is what [`Classify`] returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Typed;

impl<T, E: Classify> Classifier<T, E> for Typed {
    #[inline]
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(_) => Outcome::Success,
            Err(error) => error.classify().into(),
        }
    }
}

/// Lets a predicate decide whether the error is transient.
#[derive(Clone, Copy, Debug)]
pub struct RetryIf<F>(pub F);

impl<T, E, F: Fn(&E) -> bool> Classifier<T, E> for RetryIf<F> {
    #[inline]
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(_) => Outcome::Success,
            Err(error) if (self.0)(error) => Failure::new(Class::Transient).into(),
            Err(_) => Failure::new(Class::Permanent).into(),
        }
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
    #[inline]
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(value) if !(self.done)(value) => Outcome::NotYet(None),
            _ => self.inner.outcome(result),
        }
    }
}
