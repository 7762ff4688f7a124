//! How far a request got when its transport failed.
//!
//! Only four errors prove that it was not processed: the connection was never made, no byte of the request was written,
//! the peer refused its stream, or the peer closed the connection with a GOAWAY that excludes the stream. Any other error
//! may have occurred after the work was done.

use std::error::Error;
use std::io;

use redial_core::decide::{Causes, Class, Classifier, Classify, Failure, Outcome, Reach};

use super::client::EndpointRefused;

/// Classifies the error of a client by the errors of hyper, hyper-util, h2 and the operating system among its sources.
/// Without one of these it is permanent.
pub fn failure(error: &(dyn Error + 'static)) -> Failure {
    let mut known = None;
    let mut next = Some(error);
    while let Some(error) = next {
        match of(error) {
            Found::Sure(failure) => return failure,
            Found::Likely(failure) => known = Some(failure),
            Found::Nothing => {}
        }
        next = inner(error);
    }
    known.unwrap_or(Failure::new(Class::Permanent))
}

/// Classifies the errors of HTTP and gRPC clients: of hyper, reqwest, tonic and their dependencies.
///
/// ```
/// use redial::http::Transport;
/// use redial::{Policy, Retry};
///
/// let retry = Retry::new(Policy::standard()).with_classifier(Transport);
/// // retry.run(|_| client.clone().say_hello(request)).await
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Transport;

impl<E> Causes<E> for Transport {
    type Cause = E;

    fn cause(error: E) -> E {
        error
    }
}

impl<T, E: Error + 'static> Classifier<T, E> for Transport {
    fn outcome(&self, result: &Result<T, E>) -> Outcome {
        match result {
            Ok(_) => Outcome::Success,
            Err(error) => failure(error).into(),
        }
    }
}

/// The result for one error of the chain.
enum Found {
    Sure(Failure),
    /// Unless a source is more specific.
    Likely(Failure),
    Nothing,
}

/// An I/O error may wrap another error, which it does not return as its source.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

fn of(error: &(dyn Error + 'static)) -> Found {
    if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
        return if error.is_connect() { sure(Class::Connect) } else { Found::Nothing };
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return of_hyper(error);
    }
    if let Some(error) = error.downcast_ref::<h2::Error>() {
        return of_h2(error);
    }
    if error.is::<EndpointRefused>() {
        return Found::Sure(EndpointRefused::failure());
    }
    if error.is::<tokio::time::error::Elapsed>() {
        return sure(Class::Timeout);
    }
    #[cfg(feature = "reqwest")]
    if let Some(error) = error.downcast_ref::<::reqwest::Error>() {
        return super::reqwest::failure(error).map_or(Found::Nothing, Found::Sure);
    }
    #[cfg(feature = "reqwest")]
    if let Some(error) = error.downcast_ref::<super::reqwest::RedirectedError>() {
        return Found::Sure(error.failure());
    }
    #[cfg(feature = "tonic")]
    if let Some(read) = of_tonic(error) {
        return read;
    }
    match error.downcast_ref::<io::Error>() {
        Some(error) if error.get_ref().is_some() => Found::Likely(error.classify()),
        Some(error) => Found::Sure(error.classify()),
        None => Found::Nothing,
    }
}

fn sure(class: Class) -> Found {
    Found::Sure(Failure::new(class))
}

fn of_hyper(error: &hyper::Error) -> Found {
    if error.is_canceled() {
        // hyper reports this for a request that it returns unsent.
        Found::Sure(Failure::new(Class::Reset).reach(Reach::NotSent))
    } else if error.is_user() {
        sure(Class::Permanent)
    } else if error.is_timeout() {
        sure(Class::Timeout)
    } else if error.is_parse() {
        sure(Class::ServerError)
    } else {
        Found::Likely(Failure::new(Class::Reset))
    }
}

fn of_h2(error: &h2::Error) -> Found {
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    if error.is_remote() && (refused || error.is_go_away()) {
        sure(Class::Refused)
    } else if error.reason() == Some(h2::Reason::HTTP_1_1_REQUIRED) {
        sure(Class::Permanent)
    } else {
        Found::Likely(Failure::new(Class::Reset))
    }
}

#[cfg(feature = "tonic")]
fn of_tonic(error: &(dyn Error + 'static)) -> Option<Found> {
    if let Some(status) = error.downcast_ref::<::tonic::Status>() {
        Some(Found::Likely(super::tonic::failure(status)))
    } else if error.is::<::tonic::TimeoutExpired>() {
        Some(sure(Class::Timeout))
    } else if error.is::<::tonic::ConnectError>() {
        Some(sure(Class::Connect))
    } else {
        None
    }
}
