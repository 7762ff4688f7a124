use super::{Class, Failure, Outcome};

/// An error that can say what it is.
///
/// Implement it for your error type and every runner knows what to do with it. Where that is not
/// possible, hand the runner a [`Classifier`] instead.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which of its errors may be repeated",
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

/// Looks at the result of an attempt, `Ok` values included, and says what it was.
///
/// A classifier is a plain value. Any `Fn(&Result<T, E>) -> Outcome` is one.
#[diagnostic::on_unimplemented(
    message = "nothing says which errors of type `{E}` may be repeated",
    note = "implement `Classify` for `{E}`, or use `.retry_if(|error: &{E}| …)`"
)]
pub trait Classifier<T, E> {
    /// What came of the attempt.
    fn outcome(&self, result: &Result<T, E>) -> Outcome;
}

impl<T, E, F: Fn(&Result<T, E>) -> Outcome> Classifier<T, E> for F {
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        self(result)
    }
}

/// Asks the error itself: `Ok` is success, `Err` is what [`Classify`] says.
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

/// Asks a predicate whether the error passes.
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
    /// Judges everything else.
    pub inner: C,
    /// Whether this value is the one we are waiting for.
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
