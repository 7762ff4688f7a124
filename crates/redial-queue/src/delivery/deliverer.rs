use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use redial::Policy;
use redial::http::{names, safety};
use redial_core::decide::{Class, Failure, Safety};
use reqwest::Client;

use super::build::{BuildError, Builder, Options};
use super::public::check_literal;
use super::request::invalid_key;
use super::sign::sign;
use super::{Delivery, InvalidDelivery, Secret, Secrets, response};
use crate::clock;
use crate::durable::{Handled, Handler, Job};

/// Why a job is left to other workers.
const NOT_A_DELIVERY: &str =
    "not a delivery; it is left to a worker with a handler for it (`redial queue work --exec`)";

/// Sends the jobs that are [deliveries](Delivery).
///
/// One attempt is one request. It carries the job's idempotency key, the same on each attempt, unless the request only reads or
/// has a key of its own; and from the second attempt on its number (`redial-attempt`). Responses are classified as in our HTTP
/// clients: status codes, `Retry-After` and similar headers, 409 with `Retry-After` for a request that is still being
/// processed, the stop signal. Redirects are not followed: the new location of a receiver is in the dead letter.
///
/// Connections are kept and reused. Clones share them.
#[derive(Clone)]
pub struct Deliverer(Arc<Inner>);

pub(super) struct Inner {
    pub(super) client: Client,
    pub(super) policy: Policy,
    pub(super) secrets: Option<Secrets>,
    pub(super) options: Options,
    /// Why it cannot deliver to `https`, if it cannot.
    pub(super) no_https: Option<String>,
}

impl Deliverer {
    /// A deliverer with the defaults of [`Builder`].
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub fn new(policy: &Policy) -> Result<Self, BuildError> {
        Self::builder(policy).build()
    }

    /// Configures a deliverer with the policy's `connect_timeout`. The rest of the policy is the worker's default for its jobs.
    pub fn builder(policy: &Policy) -> Builder {
        Builder::new(policy)
    }

    pub(super) fn from_inner(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }
}

impl Handler for Deliverer {
    async fn handle(&self, job: Arc<Job>) -> Handled {
        match Delivery::of(&job) {
            Ok(delivery) => self.0.send(delivery, job).await,
            Err(_) if !Delivery::is_delivery(&job.headers) => {
                Handled::NotTried(NOT_A_DELIVERY.to_owned())
            }
            Err(invalid) => Handled::Unreadable(invalid.to_string()),
        }
    }

    fn policy(&self) -> Policy {
        self.0.policy.clone()
    }

    fn destination(&self, job: &Job) -> Option<String> {
        Delivery::of(job).ok().map(|delivery| delivery.destination())
    }

    fn safety(&self, job: &Job) -> Safety {
        match Delivery::of(job) {
            Ok(delivery) => {
                let (method, _, mut headers) = delivery.into_parts();
                match write_key(&mut headers, &method, job, self.0.options) {
                    Ok(()) => safety(&method, &headers),
                    Err(_) => Safety::Unsafe,
                }
            }
            // It is never sent.
            Err(_) => Safety::ReadOnly,
        }
    }
}

impl Inner {
    async fn send(&self, delivery: Delivery, job: Arc<Job>) -> Handled {
        let permanent =
            |why: &dyn fmt::Display| Handled::failed(Failure::new(Class::Permanent), why);
        if self.options.only_public
            && let Err(blocked) = check_literal(delivery.parsed_url())
        {
            return permanent(&blocked);
        }
        let (method, url, mut headers) = delivery.into_parts();
        if url.scheme() == "https"
            && let Some(why) = &self.no_https
        {
            return Handled::NotTried(why.clone());
        }
        let signers = match self.secrets.as_ref().map(|secrets| secrets.of(&url)) {
            None => &[],
            Some(Some(signers)) => signers,
            Some(None) => {
                let receiver = url.origin().ascii_serialization() + url.path();
                return Handled::NotTried(format!("this worker has no secret for {receiver}"));
            }
        };
        if let Err(invalid) = self.add_headers(&mut headers, &method, &job, signers) {
            return Handled::Unreadable(invalid.to_string());
        }
        let keyed = headers.contains_key(names::IDEMPOTENCY_KEY);
        let request = self.client.request(method, url).headers(headers);
        let request = match job.payload.is_empty() {
            true => request,
            false => request.body(Bytes::from_owner(Payload(job))),
        };
        match request.send().await {
            Ok(response) => response::read(response, keyed).await,
            Err(error) => response::no_response(&error),
        }
    }

    /// Adds the worker's headers: key, attempt, signature.
    fn add_headers(
        &self,
        headers: &mut HeaderMap,
        method: &Method,
        job: &Job,
        signers: &[Secret],
    ) -> Result<(), InvalidDelivery> {
        write_key(headers, method, job, self.options)?;
        if job.progress.attempts > 1 {
            headers.insert(names::ATTEMPT, job.progress.attempts.into());
        }
        if !signers.is_empty() {
            Delivery::check_key(&job.idempotency_key)?;
            let signed = sign(signers, headers, &job.idempotency_key, clock::wall(), &job.payload);
            signed.ok_or_else(|| invalid_key(&job.idempotency_key))?;
        }
        Ok(())
    }
}

/// Adds the job's key, unless the request has one or only reads.
fn write_key(
    headers: &mut HeaderMap,
    method: &Method,
    job: &Job,
    options: Options,
) -> Result<(), InvalidDelivery> {
    if headers.contains_key(names::IDEMPOTENCY_KEY) || safety(method, headers) == Safety::ReadOnly {
        return Ok(());
    }
    let key = &job.idempotency_key;
    Delivery::check_key(key)?;
    let text = match options.bare_keys {
        true => key.clone(),
        false => format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\"")),
    };
    let value = HeaderValue::try_from(text).map_err(|_| invalid_key(key))?;
    headers.insert(names::IDEMPOTENCY_KEY, value);
    Ok(())
}

/// The payload without a copy; it can be large.
struct Payload(Arc<Job>);

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        &self.0.payload
    }
}

impl fmt::Debug for Deliverer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deliverer").field("options", &self.0.options).finish_non_exhaustive()
    }
}
