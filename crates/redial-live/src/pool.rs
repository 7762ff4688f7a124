use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use std::{error, fmt};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use redial::decide::{Class, Classify, Failure, Outcome};
use redial_core::{Event, Observer, Stop, Time};
use tokio::net::TcpStream;

use crate::shared::Shared;

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The backend answered with this status.
    Status(u16),
    /// The caller stopped waiting.
    TimedOut,
    /// There was no connection, or it broke.
    Broken,
}

/// The connection of one call to the backend, which counts the attempts of the call.
#[derive(Clone, Debug)]
pub struct Client {
    pool: Arc<Pool>,
    call: u64,
    /// The attempts so far. Present if the calls are observed.
    observed: Option<Arc<Mutex<Attempts>>>,
}

/// The attempts of an observed call.
#[derive(Debug, Default)]
struct Attempts {
    number: u32,
    /// The last failure, and when it was.
    failed: Option<(Failure, Time)>,
}

/// A pool of connections, as many as were ever needed at once.
#[derive(Debug)]
pub(crate) struct Pool {
    address: SocketAddr,
    /// The same as a header: a proxy needs it.
    host: String,
    shared: Arc<Shared>,
    idle: Mutex<Vec<Sender>>,
    calls: AtomicU64,
    observer: Option<Observed>,
}

type Sender = SendRequest<Empty<Bytes>>;

impl Client {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        let call = pool.calls.fetch_add(1, Ordering::Relaxed);
        let observed = pool.observer.as_ref().map(|_| Arc::default());
        Self { pool, call, observed }
    }

    /// Makes an attempt.
    ///
    /// When the caller stops waiting, the response is still read to its end, so that the connection is reused: the
    /// wasted work of the backend is to be measured, not the cost of new connections.
    pub async fn send(self) -> Result<(), Failed> {
        let (number, begun) = (self.begin(), self.pool.shared.now());
        let outcome = self.attempt().await;
        self.end(number, begun, outcome);
        outcome
    }

    async fn attempt(&self) -> Result<(), Failed> {
        let timeout = self.pool.shared.setting.timeout.duration();
        let exchange = tokio::spawn(Arc::clone(&self.pool).exchange(self.call));
        let answer = match timeout {
            Some(timeout) => {
                tokio::time::timeout(timeout, exchange).await.map_err(|_| Failed::TimedOut)?
            }
            None => exchange.await,
        };
        answer.unwrap_or(Err(Failed::Broken))
    }

    /// The call is over.
    pub(crate) fn ended(&self, succeeded: bool) {
        self.observe(|attempts, observer, _| {
            let attempts = attempts.number;
            observer.event(&match succeeded {
                true => Event::Succeeded { attempts },
                false => Event::Stopped { reason: Stop::Attempts, attempts },
            });
        });
    }

    /// Observes the beginning of an attempt. Returns its number.
    fn begin(&self) -> u32 {
        self.observe(|attempts, observer, now| {
            attempts.number += 1;
            let number = attempts.number;
            if let Some((failure, at)) = attempts.failed.take() {
                let (delay, failure) = ((now - at).into(), Some(failure));
                observer.event(&Event::RetryScheduled { attempt: number, delay, failure });
            }
            observer.event(&Event::Attempt { number, hedge: false });
            number
        })
        .unwrap_or(1)
    }

    fn end(&self, number: u32, begun: Time, outcome: Result<(), Failed>) {
        self.observe(|attempts, observer, now| {
            let outcome = outcome.map_err(|failed| failed.classify());
            attempts.failed = outcome.err().map(|failure| (failure, now));
            let outcome = outcome.map_or_else(Outcome::Failure, |()| Outcome::Success);
            let taken = (now - begun).into();
            observer.event(&Event::AttemptEnded { number, taken, outcome });
        });
    }

    fn observe<T>(&self, event: impl FnOnce(&mut Attempts, &dyn Observer, Time) -> T) -> Option<T> {
        let (observed, observer) = self.observed.as_ref().zip(self.pool.observer.as_ref())?;
        let mut attempts = observed.lock().unwrap_or_else(PoisonError::into_inner);
        Some(event(&mut attempts, &*observer.0, self.pool.shared.now()))
    }
}

/// Receives the events of calls.
struct Observed(Arc<dyn Observer>);

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observed")
    }
}

impl Pool {
    pub(crate) fn new(address: SocketAddr, shared: Arc<Shared>) -> Self {
        let (host, idle, calls) = (address.to_string(), Mutex::default(), AtomicU64::new(0));
        Self { address, host, shared, idle, calls, observer: None }
    }

    /// Passes the events of calls to an observer.
    pub(crate) fn observed(self, observer: Option<Arc<dyn Observer>>) -> Self {
        Self { observer: observer.map(Observed), ..self }
    }

    async fn exchange(self: Arc<Self>, call: u64) -> Result<(), Failed> {
        let answer = self.try_exchange(call).await;
        let Some(status) = answer else {
            self.shared.record.broken();
            return Err(Failed::Broken);
        };
        if (200..300).contains(&status) { Ok(()) } else { Err(Failed::Status(status)) }
    }

    /// The status of the response, if there is one.
    async fn try_exchange(&self, call: u64) -> Option<u16> {
        let mut sender = self.sender().await?;
        // The server counts the attempts of a call by its number in the path.
        let request = Request::get(format!("/{call}")).header(HOST, &self.host);
        let request = request.body(Empty::new()).ok()?;
        let response = sender.send_request(request).await.ok()?;
        let status = response.status().as_u16();
        // To its end, so that the connection can be reused.
        response.into_body().collect().await.ok()?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        Some(status)
    }

    async fn sender(&self) -> Option<Sender> {
        while let Some(mut sender) = self.kept() {
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
        self.connect().await
    }

    fn kept(&self) -> Option<Sender> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    async fn connect(&self) -> Option<Sender> {
        let stream = TcpStream::connect(self.address).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        Some(sender)
    }
}

impl Classify for Failed {
    fn classify(&self) -> Failure {
        match *self {
            Self::Status(code @ 429) => Failure::new(Class::Throttled).code(code),
            Self::Status(code @ 503) => Failure::new(Class::Overloaded).code(code),
            Self::Status(code) => Failure::new(Class::ServerError).code(code),
            Self::TimedOut => Failure::new(Class::Timeout),
            Self::Broken => Failure::new(Class::Reset),
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the backend answered {status}"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Broken => f.write_str("no connection"),
        }
    }
}

impl error::Error for Failed {}
