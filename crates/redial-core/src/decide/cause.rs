//! The cause of a failed call.
//!
//! `anyhow::Error`, `eyre::Report` and `Box<dyn Error>` hold an error, but do not implement [`Error`] themselves. With
//! one of them as its cause, the error of a failed call could not implement it either, and `?` could not convert it.
//! So they are wrapped in a [`DynError`], which does.

use alloc::boxed::Box;
use alloc::string::String;
use core::error::Error;
use core::fmt;
use core::ops::Deref;

/// An error type that a predicate can be written for. `Kind` is inferred: it tells the implementations apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an error",
    note = "`retry_if` takes a `std::error::Error`, an `anyhow::Error`, an `eyre::Report`, a `Box<dyn Error>` or a \
            string; for any other type use `.classify(|result| …)`, with `.idempotent()` if repeating is safe"
)]
pub trait IntoCause<Kind>: Sized {
    /// The error itself, or a [`DynError`] around it.
    type Cause;

    /// Turns the error into the cause of the failed call.
    fn into_cause(self) -> Self::Cause;
}

/// The kind of error that implements [`Error`].
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// The kind of error that holds another one: `anyhow::Error` and `eyre::Report`.
#[derive(Clone, Copy, Debug)]
pub struct Dynamic;

/// The kind of error that is a `Box<dyn Error>`, with or without `Send + Sync`.
#[derive(Clone, Copy, Debug)]
pub struct Boxed;

/// The kind of error that is only a message.
#[derive(Clone, Copy, Debug)]
pub struct Text;

impl<E: Error> IntoCause<Plain> for E {
    type Cause = E;

    fn into_cause(self) -> E {
        self
    }
}

impl<E: AsRef<dyn Error> + AsRef<dyn Error + Send + Sync>> IntoCause<Dynamic> for E {
    type Cause = DynError<E>;

    fn into_cause(self) -> DynError<E> {
        DynError { source: |error| AsRef::<dyn Error>::as_ref(error).source(), error: self }
    }
}

impl<'a> IntoCause<Boxed> for Box<dyn Error + 'a> {
    type Cause = DynError<Self>;

    fn into_cause(self) -> DynError<Self> {
        DynError { source: |error| (**error).source(), error: self }
    }
}

impl<'a> IntoCause<Boxed> for Box<dyn Error + Send + Sync + 'a> {
    type Cause = DynError<Self>;

    fn into_cause(self) -> DynError<Self> {
        DynError { source: |error| (**error).source(), error: self }
    }
}

impl IntoCause<Text> for &str {
    type Cause = Self;

    fn into_cause(self) -> Self {
        self
    }
}

impl IntoCause<Text> for String {
    type Cause = Self;

    fn into_cause(self) -> Self {
        self
    }
}

/// An `anyhow::Error`, `eyre::Report` or `Box<dyn Error>` that implements [`Error`]. It dereferences to the original.
pub struct DynError<E> {
    error: E,
    source: fn(&E) -> Option<&(dyn Error + 'static)>,
}

impl<E> DynError<E> {
    /// The original.
    pub fn into_inner(self) -> E {
        self.error
    }
}

impl<E> Deref for DynError<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.error
    }
}

impl<E: fmt::Debug> fmt::Debug for DynError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<E: fmt::Display> fmt::Display for DynError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<E: fmt::Debug + fmt::Display> Error for DynError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        (self.source)(&self.error)
    }
}
