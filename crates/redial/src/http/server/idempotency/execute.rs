//! A connection may end before the handler does, and hyper then drops the handler where it stands: paid,
//! and not written down. So a request with a key is executed in a task of its own that nobody drops, and
//! a second task looks after it: it takes the key, gives signs of life while the handler runs (a handler
//! that computes for long cannot), and keeps the response.

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::response::Parts;
use http::{Request, Response, StatusCode};
use redial_core::admit::budget::Budget;
use redial_core::schedule::{Backoff, Jitter};
use redial_core::{Policy, Preset, Stop};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;
use tower_service::Service;

use super::body::{Body, Read};
use super::layer::Settings;
use super::problem::Problem;
use super::record;
use super::store::{Begun, Claim, Store, StoreError, Terms};
use super::{AfterInterruption, Unprocessed};
use crate::http::names;
use crate::http::server::{handover, vacancy};
use crate::inbound::{self, Inbound};
use crate::retry::Retry;

/// The waits between two writes while the store is away.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// And for how long they go on.
const LEAST_EFFORT: Duration = Duration::from_secs(30);
const MOST_EFFORT: Duration = Duration::from_secs(3600);

pub(super) struct Shared<St> {
    store: Arc<St>,
    pub(super) settings: Settings,
    /// For the end of an execution. There are no more of these than handlers were running when the store
    /// went away, because nothing is begun without it: they need no budget.
    ends: Retry,
    /// For keys that may have been taken for nobody, one for each request that is turned away meanwhile.
    releases: Retry,
}

/// What an execution came to, and why the layers above should not start over, if they should not.
type Executed<R, E> = (Result<R, E>, Option<Stop>);

/// What becomes of a request whose key was looked up.
enum Entry {
    Execute,
    ExecuteAgain,
    Replay(Bytes),
    Refuse(Problem),
}

/// The last that a store hears of a claim.
#[derive(Clone)]
enum Last {
    Finish(Bytes),
    Interrupt,
    Release,
}

impl<St: Store> Shared<St> {
    pub(super) fn new(store: Arc<St>, settings: Settings) -> Self {
        let ends = Retry::new(until_known(settings.terms.lease)).idempotent();
        let releases = Retry::new(Policy::from(Preset::Web)).idempotent();
        Self { store, settings, ends, releases }
    }

    async fn begin(self: &Arc<Self>, claim: &Claim) -> Entry {
        match self.store.begin(claim, &self.settings.terms).await {
            Ok(Begun::Started) => Entry::Execute,
            Ok(Begun::Resumed) => Entry::ExecuteAgain,
            Ok(Begun::Finished(record)) => Entry::Replay(record),
            Ok(Begun::InFlight) | Err(StoreError::Lost) => Entry::Refuse(Problem::InFlight),
            Ok(Begun::Mismatch) => Entry::Refuse(Problem::Mismatch),
            Ok(Begun::Interrupted) => Entry::Refuse(Problem::Interrupted),
            Err(StoreError::Full) => Entry::Refuse(Problem::Full),
            Err(StoreError::Unavailable(_)) if self.settings.fails_open => Entry::Execute,
            Err(StoreError::Unavailable(_)) => {
                // The store may have given us the key and only the answer was lost.
                self.write_later(*claim, Last::Release);
                Entry::Refuse(Problem::Unavailable)
            }
        }
    }

    /// Waits for the handler and gives signs of life meanwhile. A sign that does not arrive is not the
    /// handler's concern: it goes on, and what it did is written down if nobody has taken the key.
    async fn attend<T>(&self, claim: &Claim, mut work: JoinHandle<T>) -> Result<T, JoinError> {
        let Terms { lease, .. } = self.settings.terms;
        loop {
            match timeout(lease / 3, &mut work).await {
                Ok(done) => return done,
                Err(_) => {
                    let _ = self.store.renew(claim, &self.settings.terms).await;
                }
            }
        }
    }

    /// Writes before the caller is answered, so that whoever has the response and repeats the request
    /// gets the same. A store that is away does not keep the caller waiting.
    async fn write(self: &Arc<Self>, claim: Claim, last: Last) {
        match self.write_once(&claim, last.clone()).await {
            Err(StoreError::Unavailable(_)) => self.write_later(claim, last),
            Err(StoreError::Full) => {
                let _ = self.write_once(&claim, Last::Finish(record::not_kept())).await;
            }
            Ok(()) | Err(StoreError::Lost) => {}
        }
    }

    async fn write_once(&self, claim: &Claim, last: Last) -> Result<(), StoreError> {
        let terms = &self.settings.terms;
        match last {
            Last::Finish(record) => self.store.finish(claim, record, terms).await,
            Last::Interrupt => {
                let over = Terms { lease: Duration::ZERO, ..*terms };
                self.store.renew(claim, &over).await
            }
            Last::Release => self.store.release(claim).await,
        }
    }

    fn write_later(self: &Arc<Self>, claim: Claim, last: Last) {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let write = |_| shared.write_once(&claim, last.clone());
            let retry = match last {
                Last::Finish(_) | Last::Interrupt => &shared.ends,
                Last::Release => &shared.releases,
            };
            let _ = retry.run(write).await;
        });
    }
}

/// For another lease: until then nobody can have taken the key. Later the response is still welcome, so a
/// short lease does not make it hasty.
fn until_known(lease: Duration) -> Policy {
    let backoff = Backoff::exponential(FIRST_WAIT, LONGEST_WAIT).jitter(Jitter::Equal);
    let draft = Policy::draft().budget(Budget::None).backoff(backoff).attempts(1_000_000);
    let deadline = lease.clamp(LEAST_EFFORT, MOST_EFFORT);
    draft.deadline(deadline).build().unwrap_or_else(|_| Policy::standard())
}

/// Reads the body without a place in a gate, and only then asks for a place and for the key: a request that
/// is never sent to its end holds neither.
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
    St: Store,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    let settings = &shared.settings;
    let (parts, body) = request.into_parts();
    let again = vacancy::Return::of(&parts.headers);
    let Some(mut reservation) = settings.arriving.reserve(settings.arriving_bytes) else {
        return Ok(Problem::ArrivingFull.response());
    };
    let read = Read::all(body, settings.request_bytes, |bytes| reservation.grow(bytes));
    let whole = match vacancy::without_place(timeout(settings.request_time, read)).await {
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
    again.place().await;
    drop(reservation);
    let claim = settings.claim(&key, &parts, &whole.data);
    let request = Request::from_parts(parts, Body::whole(whole));
    let (leaving, staying) = handover::pair();
    let task = supervise(shared, inner, claim, request, Inbound::current());
    let task = tokio::spawn(async move {
        let done = task.await;
        drop(staying);
        done
    });
    let done = task.await;
    drop(leaving);
    match done {
        Ok((response, stop)) => {
            if let Some(stop) = stop {
                inbound::gave_up(stop, u32::MAX);
            }
            response
        }
        Err(ended) => Ok(ended_early(ended).response()),
    }
}

/// A panic goes on where it would have gone without us. Otherwise the runtime is shutting down.
fn ended_early(ended: JoinError) -> Problem {
    match ended.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Problem::Interrupted,
    }
}

async fn supervise<S, St, B, R>(
    shared: Arc<Shared<St>>,
    inner: S,
    claim: Claim,
    mut request: Request<Body<B>>,
    inbound: Inbound,
) -> Executed<Response<Body<R>>, S::Error>
where
    S: Service<Request<Body<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    St: Store,
    B: http_body::Body + Send + 'static,
    B::Error: Send,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    match shared.begin(&claim).await {
        Entry::Execute => {}
        Entry::ExecuteAgain => {
            request.extensions_mut().insert(AfterInterruption);
        }
        Entry::Replay(record) => return (Ok(record::replay(record)), None),
        Entry::Refuse(problem) => return (Ok(problem.response()), None),
    }
    let work = tokio::spawn(execute(inner, request, shared.settings.response_bytes, inbound));
    match shared.attend(&claim, work).await {
        Ok((Ok((parts, body)), stop)) => {
            shared.write(claim, last(&parts, &body)).await;
            (Ok(Response::from_parts(parts, body.into_body())), stop)
        }
        Ok((Err(error), stop)) => {
            shared.write(claim, Last::Interrupt).await;
            (Err(error), stop)
        }
        Err(ended) => {
            shared.write(claim, Last::Interrupt).await;
            (Ok(ended_early(ended).response()), None)
        }
    }
}

/// Calls the handler and reads its response, under what the request brought along.
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

fn last<R: http_body::Body>(parts: &Parts, body: &Read<R>) -> Last {
    match body {
        _ if is_unprocessed(parts) => Last::Release,
        Read::Whole(whole) => Last::Finish(record::response(parts, whole)),
        Read::Long { .. } | Read::Broken { .. } => Last::Finish(record::not_kept()),
    }
}

/// Whether a response says that nothing was done. Then a repetition has to be executed: it comes with
/// other credentials, to another server, or later.
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
