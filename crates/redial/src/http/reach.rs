//! How far did a request come whose transport failed?
//!
//! Only four things say that it was not processed: the connection was never made, no byte of the request was
//! written, the peer refused its stream, or the peer closed the connection for streams from an earlier one
//! on (a *remote* GOAWAY). Everything else may have happened after the work was done.

use std::error::Error;
use std::io;

use redial_core::decide::{Causes, Class, Classifier, Classify, Failure, Outcome, Reach};

/// What the error of a client means: looks for those of hyper, hyper-util, h2 and the operating system
/// among its sources. One that has none of them is permanent.
pub fn failure(error: &(dyn Error + 'static)) -> Failure {
    let mut known = None;
    let mut next = Some(error);
    while let Some(error) = next {
        match of(error) {
            Read::Sure(failure) => return failure,
            Read::Likely(failure) => known = Some(failure),
            Read::Nothing => {}
        }
        next = inner(error);
    }
    known.unwrap_or(Failure::new(Class::Permanent))
}

/// Judges the errors of HTTP and gRPC clients: of hyper, reqwest, tonic and what they are made of.
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

/// What one link of the chain says.
enum Read {
    Sure(Failure),
    /// Unless a source knows better.
    Likely(Failure),
    Nothing,
}

/// An I/O error may hold another one, which is not its source but itself.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

fn of(error: &(dyn Error + 'static)) -> Read {
    if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
        return if error.is_connect() { sure(Class::Connect) } else { Read::Nothing };
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return of_hyper(error);
    }
    if let Some(error) = error.downcast_ref::<h2::Error>() {
        return of_h2(error);
    }
    if error.is::<tokio::time::error::Elapsed>() {
        return sure(Class::Timeout);
    }
    #[cfg(feature = "reqwest")]
    if let Some(error) = error.downcast_ref::<::reqwest::Error>() {
        return super::reqwest::failure(error).map_or(Read::Nothing, Read::Sure);
    }
    #[cfg(feature = "reqwest")]
    if let Some(error) = error.downcast_ref::<super::reqwest::RedirectedError>() {
        return Read::Sure(error.failure());
    }
    #[cfg(feature = "tonic")]
    if let Some(read) = of_tonic(error) {
        return read;
    }
    match error.downcast_ref::<io::Error>() {
        Some(error) if error.get_ref().is_some() => Read::Likely(error.classify()),
        Some(error) => Read::Sure(error.classify()),
        None => Read::Nothing,
    }
}

fn sure(class: Class) -> Read {
    Read::Sure(Failure::new(class))
}

fn of_hyper(error: &hyper::Error) -> Read {
    if error.is_canceled() {
        // hyper says so of a request that it gives back whole.
        Read::Sure(Failure::new(Class::Reset).reach(Reach::NotSent))
    } else if error.is_user() {
        sure(Class::Permanent)
    } else if error.is_timeout() {
        sure(Class::Timeout)
    } else if error.is_parse() {
        sure(Class::ServerError)
    } else {
        Read::Likely(Failure::new(Class::Reset))
    }
}

fn of_h2(error: &h2::Error) -> Read {
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    if error.is_remote() && (refused || error.is_go_away()) {
        sure(Class::Refused)
    } else if error.reason() == Some(h2::Reason::HTTP_1_1_REQUIRED) {
        sure(Class::Permanent)
    } else {
        Read::Likely(Failure::new(Class::Reset))
    }
}

#[cfg(feature = "tonic")]
fn of_tonic(error: &(dyn Error + 'static)) -> Option<Read> {
    if let Some(status) = error.downcast_ref::<::tonic::Status>() {
        Some(Read::Likely(super::tonic::failure(status)))
    } else if error.is::<::tonic::TimeoutExpired>() {
        Some(sure(Class::Timeout))
    } else if error.is::<::tonic::ConnectError>() {
        Some(sure(Class::Connect))
    } else {
        None
    }
}
