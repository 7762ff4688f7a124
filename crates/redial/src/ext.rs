#[cfg(feature = "tokio")]
use std::future::Future;

use redial_core::decide::cause::Plain;
use redial_core::decide::{Classifier, RetryIf};

use crate::error::Error;
use crate::retry::Retry;

#[cfg(feature = "tokio")]
/// Adds `fetch.retry(&retry)` to async functions and closures that can be called again.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// use redial::{Policy, Retry, Retryable};
///
/// async fn fetch() -> Result<u32, std::io::Error> {
///     Ok(42)
/// }
///
/// let retry = Retry::new(Policy::standard());
/// assert_eq!(fetch.retry(&retry).await.unwrap(), 42);
/// # }
/// ```
pub trait Retryable<T, E, Fut>: FnMut() -> Fut + Sized
where
    Fut: Future<Output = Result<T, E>>,
{
    /// Runs it under `retry`; see [`Retry::run`].
    fn retry<C: Classifier<T, E>>(
        mut self,
        retry: &Retry<C>,
    ) -> impl Future<Output = Result<T, Error<C::Cause>>> {
        async move { retry.run(|_| self()).await }
    }
}

#[cfg(feature = "tokio")]
impl<T, E, Fut, F> Retryable<T, E, Fut> for F
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
}

/// Adds `connect.retry_blocking(&retry)` to blocking functions and closures that can be called again.
pub trait RetryableBlocking<T, E>: FnMut() -> Result<T, E> + Sized {
    /// Runs it under `retry`; see [`Retry::run_blocking`].
    fn retry_blocking<C: Classifier<T, E>>(
        mut self,
        retry: &Retry<C>,
    ) -> Result<T, Error<C::Cause>> {
        retry.run_blocking(|_| self())
    }
}

impl<T, E, F: FnMut() -> Result<T, E>> RetryableBlocking<T, E> for F {}

/// A [`Retry`] whose predicate is a function pointer, so that a struct can name its type.
///
/// ```
/// use redial::decide::cause::Dynamic;
/// use redial::{Policy, Retry, RetryFn};
///
/// struct Scores {
///     retry: RetryFn<anyhow::Error, Dynamic>, // `RetryFn<E>` for an `E` that is a `std::error::Error`
/// }
///
/// fn is_transient(error: &anyhow::Error) -> bool {
///     error.is::<std::io::Error>()
/// }
///
/// let retry = Retry::new(Policy::standard()).retry_if(is_transient as fn(&_) -> _);
/// let scores = Scores { retry };
/// ```
pub type RetryFn<E, Kind = Plain> = Retry<RetryIf<fn(&E) -> bool, Kind>>;
