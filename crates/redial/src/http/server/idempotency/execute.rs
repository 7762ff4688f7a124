//! When a connection closes, hyper drops its handler at any await point: after the payment, but before it was recorded.
//! So a request with a key is executed in a separate task that is not dropped. A second task supervises it: it takes the
//! key, renews the lease while the handler runs (a handler that blocks its thread cannot), and stores the response.

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::response::Parts;
use http::{Request, Response, StatusCode};
use redial_core::schedule::{Backoff, Jitter};
use redial_core::{Draft, Policy, Preset, Stop};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;
use tower_service::Service;

use super::body::{Body, Read};
use super::error::IdempotencyStoreError;
use super::layer::Settings;
use super::problem::Problem;
use super::record;
use super::store::{Begun, IdempotencyStore, KeyClaim, KeyTerms};
use super::{AfterInterruption, Unprocessed};
use crate::http::names;
use crate::http::server::shed::{Reacquire, SharedPermit};
use crate::inbound::{self, Inbound};
use crate::retry::Retry;

/// The delays between two writes while the store is unavailable.
const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_millis(500);
/// The bounds on how long they are retried.
const LEAST_DEADLINE: Duration = Duration::from_secs(30);
const MOST_DEADLINE: Duration = Duration::from_secs(3600);

pub(super) struct Shared<St> {
    store: Arc<St>,
    pub(super) settings: Settings,
    /// For the end of an execution. It needs no budget: there are no more of these than handlers that ran when the store
    /// became unavailable, because nothing is started without it.
    ends: Retry,
    /// For keys that a rejected request may have taken, one for each request that is rejected meanwhile.
    releases: Retry,
}

/// The result of an execution, and the reason why the layers above should not retry, if there is one.
type Executed<R, E> = (Result<R, E>, Option<Stop>);

/// What to do with a request after the lookup of its key.
enum Lookup {
    Execute,
    ExecuteAgain,
    Replay(Bytes),
    Refuse(Problem),
}

/// The last write for a claim.
#[derive(Clone)]
enum FinalWrite {
    Finish(Bytes),
    Interrupt,
    Release,
}

impl<St: IdempotencyStore> Shared<St> {
    pub(super) fn new(store: Arc<St>, settings: Settings) -> Self {
        let ends = Retry::new(write_policy(settings.terms.lease)).idempotent();
        let releases = Retry::new(release_policy()).idempotent();
        Self { store, settings, ends, releases }
    }

    async fn begin(self: &Arc<Self>, claim: &KeyClaim) -> Lookup {
        match self.store.begin(claim, &self.settings.terms).await {
            Ok(Begun::Started) => Lookup::Execute,
            Ok(Begun::Resumed) => Lookup::ExecuteAgain,
            Ok(Begun::Finished(record)) => Lookup::Replay(record),
            Ok(Begun::InFlight) | Err(IdempotencyStoreError::Lost) => {
                Lookup::Refuse(Problem::InFlight)
            }
            Ok(Begun::Mismatch) => Lookup::Refuse(Problem::Mismatch),
            Ok(Begun::Interrupted) => Lookup::Refuse(Problem::Interrupted),
            Err(IdempotencyStoreError::Full) => Lookup::Refuse(Problem::Full),
            Err(IdempotencyStoreError::Unavailable(_)) if self.settings.fails_open => {
                Lookup::Execute
            }
            Err(IdempotencyStoreError::Unavailable(_)) => {
                // The store may have granted the key, and only its reply was lost.
                self.write_later(*claim, FinalWrite::Release);
                Lookup::Refuse(Problem::Unavailable)
            }
        }
    }

    /// Waits for the handler and renews the lease meanwhile. A failed renewal does not stop the handler: its response is
    /// stored unless another execution has taken the key.
    async fn renew_until_done<T>(
        &self,
        claim: &KeyClaim,
        mut work: JoinHandle<T>,
    ) -> Result<T, JoinError> {
        let KeyTerms { lease, .. } = self.settings.terms;
        loop {
            match timeout(lease / 3, &mut work).await {
                Ok(done) => return done,
                Err(_) => {
                    let _ = self.store.renew(claim, &self.settings.terms).await;
                }
            }
        }
    }

    /// Writes before the caller gets its response, so that a repetition gets the same one. An unavailable store does not
    /// delay the caller.
    async fn write(self: &Arc<Self>, claim: KeyClaim, last: FinalWrite) {
        match self.write_once(&claim, last.clone()).await {
            Err(IdempotencyStoreError::Unavailable(_)) => self.write_later(claim, last),
            Err(IdempotencyStoreError::Full) => {
                let _ = self.write_once(&claim, FinalWrite::Finish(record::not_kept())).await;
            }
            Ok(()) | Err(IdempotencyStoreError::Lost) => {}
        }
    }

    async fn write_once(
        &self,
        claim: &KeyClaim,
        last: FinalWrite,
    ) -> Result<(), IdempotencyStoreError> {
        let terms = &self.settings.terms;
        match last {
            FinalWrite::Finish(record) => self.store.finish(claim, record, terms).await,
            FinalWrite::Interrupt => {
                let over = KeyTerms { lease: Duration::ZERO, ..*terms };
                self.store.renew(claim, &over).await
            }
            FinalWrite::Release => self.store.release(claim).await,
        }
    }

    fn write_later(self: &Arc<Self>, claim: KeyClaim, last: FinalWrite) {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let write = |_| shared.write_once(&claim, last.clone());
            let retry = match last {
                FinalWrite::Finish(_) | FinalWrite::Interrupt => &shared.ends,
                FinalWrite::Release => &shared.releases,
            };
            let _ = retry.run(write).await;
        });
    }
}

/// A parked write would keep the key from the caller's next attempt for longer.
fn release_policy() -> Policy {
    let draft = Preset::Web.draft().without_park();
    draft.build().unwrap_or_else(|_| Policy::standard())
}

/// Retries for another lease, in which no other execution can take the key. A later response is still useful, so a short
/// lease has a lower bound here.
fn write_policy(lease: Duration) -> Policy {
    let backoff = Backoff::exponential(FIRST_DELAY, LONGEST_DELAY).jitter(Jitter::Equal);
    let draft = Draft::bare(1_000_000).backoff(backoff);
    let deadline = lease.clamp(LEAST_DEADLINE, MOST_DEADLINE);
    draft.deadline(deadline).build().unwrap_or_else(|_| Policy::standard())
}

/// Reads the body without a permit, and only then acquires a permit and the key: a request that never ends holds neither.
pub(super) async fn keyed<S, St, B, R>(
    shared: Arc<Shared<St>>,
    inner: S,
    key: String,
    request: Request<B>,
) -> Result<Response<Body<R>>, S::Error>
where
    S: Service<Request<Body<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    St: IdempotencyStore,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    let settings = &shared.settings;
    let (mut parts, body) = request.into_parts();
    let permit = SharedPermit::take(&mut parts.extensions);
    let reacquire = Reacquire::by(&parts);
    let Some(mut reservation) = settings.arriving.reserve(settings.arriving_bytes) else {
        return Ok(Problem::ArrivingFull.response());
    };
    let read = Read::all(body, settings.request_bytes, |bytes| reservation.grow(bytes));
    let read = without_permit(permit.as_deref(), timeout(settings.request_time, read));
    let whole = match read.await {
        Ok(Read::Whole(whole)) => whole,
        Ok(Read::Long { .. }) if reservation.was_refused() => {
            return Ok(Problem::ArrivingFull.response());
        }
        Ok(Read::Long { .. }) => {
            return Ok(Problem::RequestTooLarge(settings.request_bytes).response());
        }
        Ok(Read::Broken { .. }) => return Ok(Problem::RequestBroken.response()),
        Err(_) => return Ok(Problem::RequestTooSlow.response()),
    };
    if let Some(permit) = &permit
        && let Err(rejection) = permit.reacquire(reacquire).await
    {
        return Ok(rejection.response(reacquire.grpc));
    }
    drop(reservation);
    let claim = settings.claim(&key, &parts, &whole.data);
    let request = Request::from_parts(parts, Body::whole(whole));
    let inbound = Inbound::of(request.extensions());
    let task = supervise(shared, inner, claim, request, inbound);
    // With the permit, because the task goes on when the caller disconnects.
    let task = tokio::spawn(async move { (task.await, drop(permit)).0 });
    match task.await {
        Ok((response, stop)) => {
            if let Some(stop) = stop {
                inbound::stop_above(stop);
            }
            response
        }
        Err(ended) => Ok(ended_early(ended).response()),
    }
}

/// Waits for the body of a request without a permit.
async fn without_permit<F: Future>(permit: Option<&SharedPermit>, body: F) -> F::Output {
    let mut body = pin!(body);
    poll_fn(|cx| {
        let polled = body.as_mut().poll(cx);
        if polled.is_pending() {
            permit.inspect(|permit| permit.release());
        }
        polled
    })
    .await
}

/// Resumes a panic in the caller's task. Without a panic, the runtime is shutting down.
fn ended_early(ended: JoinError) -> Problem {
    match ended.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Problem::Interrupted,
    }
}

async fn supervise<S, St, B, R>(
    shared: Arc<Shared<St>>,
    inner: S,
    claim: KeyClaim,
    mut request: Request<Body<B>>,
    inbound: Inbound,
) -> Executed<Response<Body<R>>, S::Error>
where
    S: Service<Request<Body<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    St: IdempotencyStore,
    B: http_body::Body + Send + 'static,
    B::Error: Send,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    match shared.begin(&claim).await {
        Lookup::Execute => {}
        Lookup::ExecuteAgain => {
            request.extensions_mut().insert(AfterInterruption);
        }
        Lookup::Replay(record) => return (Ok(record::replay(record)), None),
        Lookup::Refuse(problem) => return (Ok(problem.response()), None),
    }
    let work = tokio::spawn(execute(inner, request, shared.settings.response_bytes, inbound));
    match shared.renew_until_done(&claim, work).await {
        Ok((Ok((parts, body)), stop)) => {
            shared.write(claim, final_write(&parts, &body)).await;
            (Ok(Response::from_parts(parts, body.into_body())), stop)
        }
        Ok((Err(error), stop)) => {
            shared.write(claim, FinalWrite::Interrupt).await;
            (Err(error), stop)
        }
        Err(ended) => {
            shared.write(claim, FinalWrite::Interrupt).await;
            (Ok(ended_early(ended).response()), None)
        }
    }
}

/// Calls the handler and reads its response, with the deadline and attempt of the request.
async fn execute<S, B, R>(
    mut inner: S,
    request: Request<B>,
    most: usize,
    mut inbound: Inbound,
) -> Executed<(Parts, Read<R>), S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: http_body::Body<Data = Bytes>,
{
    let call = async move {
        poll_fn(|cx| inner.poll_ready(cx)).await?;
        let (parts, body) = inner.call(request).await?.into_parts();
        Ok((parts, Read::all(body, most, |_| true).await))
    };
    let mut call = pin!(call);
    let done = poll_fn(|cx| inbound.during(|| call.as_mut().poll(cx))).await;
    (done, inbound.stop)
}

fn final_write<R: http_body::Body>(parts: &Parts, body: &Read<R>) -> FinalWrite {
    match body {
        _ if is_unprocessed(parts) => FinalWrite::Release,
        Read::Whole(whole) => FinalWrite::Finish(record::response(parts, whole)),
        Read::Long { .. } | Read::Broken { .. } => FinalWrite::Finish(record::not_kept()),
    }
}

/// Whether a response states that nothing was done. Then a repetition has to be executed: it has other credentials, goes
/// to another server, or comes later.
fn is_unprocessed(parts: &Parts) -> bool {
    match parts.status {
        StatusCode::UNAUTHORIZED
        | StatusCode::MISDIRECTED_REQUEST
        | StatusCode::TOO_EARLY
        | StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::SERVICE_UNAVAILABLE if parts.headers.contains_key(names::SLOT) => true,
        _ => parts.extensions.get::<Unprocessed>().is_some(),
    }
}
