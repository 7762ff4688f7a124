//! A request with an idempotency key needs its permit at other times than other requests do. While its body is arriving it has no
//! work to do, and a few slow uploads must not use up the permits of a server. Once it is executed it is executed to its end: if
//! its permit were released when the caller disconnects, clients that hang up and reconnect could start any number of handlers
//! behind a limit.
//!
//! So the permit of such a request is shared. The shed layer puts a [`Handle`] into the extensions of the request, and the
//! idempotency layer further in takes it out: it releases the permit and acquires it again, and keeps it until the work is done.
//! The handle is a part of the request, so layers in between may poll the request when they like, or spawn it.

use std::iter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use http::request::Parts;
use http::{Extensions, Request};
use redial_core::Deadline;

use super::limiter::{Admission, Limiter, Notice, Permit, Rejection};
use crate::Inbound;
use crate::clock::{Clock, Tokio};
use crate::http::names;
use crate::http::travel::Propagated;
use crate::timer::within;

/// What a shed layer holds for a request that it has started, until its response.
#[allow(dead_code, reason = "held until it is dropped")]
pub(super) enum Held {
    Alone(Permit),
    Shared(Arc<SharedPermit>),
}

/// The permit of one shed layer. It is released when the layer and the work that runs have both dropped it.
pub(crate) struct SharedPermit {
    limiter: Arc<Limiter>,
    /// `None` while the body of the request is arriving.
    permit: Mutex<Option<Permit>>,
    /// That of the next shed layer further out.
    outer: Option<Arc<Self>>,
}

/// The permit of the innermost shed layer, in the extensions of a request. A handler that keeps the request keeps no permit.
#[derive(Clone)]
struct Handle(Weak<SharedPermit>);

/// What a shed layer needs to know of a request that acquires its permit again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reacquire {
    pub(super) retry: bool,
    pub(super) deadline: Deadline,
    pub(crate) grpc: bool,
}

impl Held {
    /// The permit of a request that is started now.
    #[inline]
    pub(super) fn by<B>(permit: Permit, request: &mut Request<B>) -> Self {
        if request.headers().keys().any(|name| *name == names::IDEMPOTENCY_KEY) {
            Self::Shared(SharedPermit::put(permit, request.extensions_mut()))
        } else {
            Self::Alone(permit)
        }
    }
}

impl SharedPermit {
    #[cold]
    fn put(permit: Permit, extensions: &mut Extensions) -> Arc<Self> {
        let outer = extensions.get().and_then(|Handle(outer)| outer.upgrade());
        let limiter = Arc::clone(permit.limiter());
        let shared = Arc::new(Self { limiter, permit: Mutex::new(Some(permit)), outer });
        extensions.insert(Handle(Arc::downgrade(&shared)));
        shared
    }

    /// The permit of a request, if a shed layer holds one.
    pub(crate) fn take(extensions: &mut Extensions) -> Option<Arc<Self>> {
        extensions.remove().and_then(|Handle(shared)| shared.upgrade())
    }

    /// Releases the permits of all shed layers.
    pub(crate) fn release(&self) {
        for shared in self.outwards() {
            let permit = shared.lock().take();
            if let Some(permit) = permit {
                permit.release_unused();
            }
        }
    }

    /// Waits until all shed layers have a permit for the request again, from the outside in, as when the request arrived.
    pub(crate) async fn reacquire(&self, request: Reacquire) -> Result<(), Rejection> {
        let outwards: Vec<&Self> = self.outwards().collect();
        for shared in outwards.into_iter().rev() {
            if shared.lock().is_none() {
                let permit = shared.permit(&request).await?;
                *shared.lock() = Some(permit);
            }
        }
        Ok(())
    }

    async fn permit(&self, request: &Reacquire) -> Result<Permit, Rejection> {
        match self.limiter.arrive_again(request) {
            Admission::Entered(permit, _) => Ok(permit),
            Admission::Rejected(rejection) => Err(rejection),
            Admission::Queued(mut queued, deadline) => {
                match within(&mut queued.notice, deadline).await {
                    Some(Ok(Notice::Start(permit))) => Ok(permit),
                    Some(Ok(Notice::Rejected(rejection))) => Err(rejection),
                    Some(Err(_)) | None => Err(Rejection::Late),
                }
            }
        }
    }

    fn outwards(&self) -> impl Iterator<Item = &Self> {
        iter::successors(Some(self), |shared| shared.outer.as_deref())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Permit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reacquire {
    /// Reads what a shed layer needs while the request still has its headers.
    pub(crate) fn by(parts: &Parts) -> Self {
        let read = Propagated::read(&parts.headers, &names::TIMEOUT_MS);
        let own = Deadline::from(read.timeout().map(|left| Tokio::now() + left));
        let deadline = own.min(Inbound::of(&parts.extensions).deadline);
        Self { retry: read.attempt() > 1, deadline, grpc: read.is_grpc() }
    }
}
