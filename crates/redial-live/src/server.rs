use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::backend::{Answer, Backend};
use crate::shared::Shared;

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
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let state = Arc::new(ServerState {
            service: Mutex::new((Backend::new(&shared.setting), HashMap::new())),
            shared: Arc::clone(shared),
        });
        let serve = move || {
            runtime.block_on(async move {
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
    /// The backend, and how many attempts of each call have arrived.
    service: Mutex<(Backend, HashMap<u64, u32>)>,
    shared: Arc<Shared>,
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

async fn answer(
    request: Request<Incoming>,
    state: &ServerState,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let shared = &state.shared;
    let call = request.uri().path().trim_start_matches('/').parse().unwrap_or(0);
    let answer = {
        let mut service = state.service.lock().unwrap_or_else(PoisonError::into_inner);
        let (backend, attempts) = &mut *service;
        let number = attempts.entry(call).or_default();
        *number += 1;
        // Read under the lock, so that time does not go back for the backend.
        let now = shared.now();
        shared.record.attempt(now, *number);
        let answer = backend.arrive(now);
        if answer == Answer::Refused {
            shared.record.refused(now);
        }
        answer
    };
    let mut response = Response::new(Empty::new());
    match answer {
        Answer::DoneAt(done) => {
            shared.wait_until(done).await;
            shared.record.served(shared.now());
        }
        Answer::Refused => *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE,
    }
    Ok(response)
}
