use std::collections::HashMap;
use std::net::{self, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::{error, fmt, io};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use redial_core::Time;
use redial_sim::Stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::backend::{Backend, BackendAnswer};
use crate::fault::Fault;
use crate::shared::Shared;

/// The stream of faults that are switched on; those before it are the backend's.
const FAULTS: u64 = 2;

/// Paths that begin like this are answered with a 410, as by a receiver that was removed.
const GONE: &str = "/gone";

/// A server on loopback, on its own thread. It stops when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let state = Arc::new(ServerState {
            service: Mutex::new(ServiceState {
                backend: Backend::new(&shared.setting),
                attempts: HashMap::new(),
                faults: Stream::new(shared.setting.seed).of(FAULTS),
            }),
            shared: Arc::clone(shared),
        });
        let serve = move || {
            runtime.block_on(async move {
                // Fails only without a reactor, which this runtime has.
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                tokio::spawn(probe(Arc::clone(&state.shared)));
                tokio::spawn(accept(listener, state));
                // An error means that the handle was dropped, which also stops the server.
                drop(stopped.await);
            });
        };
        let thread = thread::Builder::new().name("live-backend".into()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread must not become one of the drop.
            drop(thread.join());
        }
    }
}

/// The state that all connections share.
struct ServerState {
    service: Mutex<ServiceState>,
    shared: Arc<Shared>,
}

struct ServiceState {
    backend: Backend,
    /// How many attempts of each call have arrived, if they are recorded.
    attempts: HashMap<u64, u32>,
    /// Which requests a fault hits.
    faults: Stream,
}

/// What a caller gets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reply {
    DoneAt(Time),
    /// The work is done then, and the connection breaks.
    LostAt(Time),
    Refused,
    Limited,
    /// The receiver was removed.
    Gone,
}

impl ServiceState {
    fn arrive(&mut self, now: Time, fault: Option<Fault>) -> Reply {
        self.backend.slow_down(if let Some(Fault::Slow(slowness)) = fault {
            slowness
        } else {
            1.0
        });
        match fault {
            Some(Fault::Down) => return Reply::Refused,
            Some(Fault::Failing(share)) if self.faults.chance(share) => return Reply::Refused,
            Some(Fault::Limiting(share)) if self.faults.chance(share) => return Reply::Limited,
            _ => {}
        }
        match (self.backend.arrive(now), fault) {
            (BackendAnswer::Refused, _) => Reply::Refused,
            (BackendAnswer::DoneAt(done), Some(Fault::LosingReplies(share)))
                if self.faults.chance(share) =>
            {
                Reply::LostAt(done)
            }
            (BackendAnswer::DoneAt(done), _) => Reply::DoneAt(done),
        }
    }
}

async fn probe(shared: Arc<Shared>) {
    shared.probe().await;
}

async fn accept(listener: TcpListener, state: Arc<ServerState>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, Arc::clone(&state)));
            }
            // Most likely too many open files, which passes when other connections close.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

async fn serve(stream: TcpStream, state: Arc<ServerState>) {
    let service = service_fn(|request| answer(request, &state));
    if stream.set_nodelay(true).is_ok() {
        let mut server = http1::Builder::new();
        // The work of a caller that has hung up continues.
        server.half_close(true);
        // The caller notices and counts a broken connection.
        drop(server.serve_connection(TokioIo::new(stream), service).await);
    }
}

/// Breaks the connection of a request.
#[derive(Debug)]
struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the response is lost")
    }
}

impl error::Error for Lost {}

async fn answer(
    request: Request<Incoming>,
    state: &ServerState,
) -> Result<Response<Empty<Bytes>>, Lost> {
    let shared = &state.shared;
    let call = request.uri().path().trim_start_matches('/').parse().unwrap_or(0);
    let reply = if request.uri().path().starts_with(GONE) {
        Reply::Gone
    } else {
        let mut service = state.service.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock, so that time does not go back for the backend.
        let now = shared.now();
        if shared.record.is_kept() {
            let number = service.attempts.entry(call).or_default();
            *number += 1;
            shared.record.attempt(now, *number);
        }
        let reply = service.arrive(now, shared.switch.at(now).map(|(fault, _)| fault));
        if reply == Reply::Refused {
            shared.record.refused(now);
        }
        reply
    };
    let mut response = Response::new(Empty::new());
    match reply {
        Reply::DoneAt(done) => {
            shared.wait_until(done).await;
            shared.record.served(shared.now());
        }
        Reply::LostAt(done) => {
            shared.wait_until(done).await;
            return Err(Lost);
        }
        Reply::Refused => *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE,
        Reply::Gone => *response.status_mut() = StatusCode::GONE,
        Reply::Limited => {
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
    }
    Ok(response)
}
