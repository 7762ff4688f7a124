//! A server that fails as the path of a request determines, and notes requests by host.
#![allow(clippy::disallowed_methods, reason = "measures another process")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

/// Answers `/503` with that status and `/grpc-14` with that gRPC code, closes the connection at `/reset`, never answers `/hang`. At `/together` the first
/// requests wait for each other and fail together; later ones fail after enough calls have ended.
pub(super) struct Upstream {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The number of requests that fail together.
    together: usize,
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    seen: HashMap<String, Vec<Instant>>,
    arrived: usize,
    ended: usize,
    released: bool,
}

impl Upstream {
    pub(super) fn start() -> Self {
        Self::together(0)
    }

    pub(super) fn together(together: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State { together, ..State::default() });
        let served = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&served);
                thread::spawn(move || state.serve(stream));
            }
        });
        Self { port, state }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The number of requests for this host so far.
    pub(super) fn seen(&self, host: &str) -> usize {
        self.times(host).len()
    }

    /// When the requests for this host arrived.
    pub(super) fn times(&self, host: &str) -> Vec<Instant> {
        self.state.counts.lock().unwrap().seen.get(host).cloned().unwrap_or_default()
    }

    /// A client has its response. After `enough` of them, retries get theirs.
    pub(super) fn call_ended(&self, enough: usize) {
        let mut counts = self.state.counts.lock().unwrap();
        counts.ended += 1;
        counts.released |= counts.ended >= enough;
        self.state.changed.notify_all();
    }
}

impl State {
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        while let Some((path, host)) = request(&mut reader) {
            let now = Instant::now();
            self.counts.lock().unwrap().seen.entry(host).or_default().push(now);
            let code = path.strip_prefix("/grpc-");
            let status = match path.as_str() {
                "/reset" => return,
                "/hang" => continue,
                "/together" => self.wait(),
                _ if code.is_some() => 200,
                path => path.trim_start_matches('/').parse().unwrap_or(404),
            };
            let code = code.map_or(String::new(), |code| format!("grpc-status: {code}\r\n"));
            let response = format!("HTTP/1.1 {status} X\r\n{code}content-length: 0\r\n\r\n");
            if writer.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn wait(&self) -> u16 {
        let mut counts = self.counts.lock().unwrap();
        counts.arrived += 1;
        let is_first = counts.arrived <= self.together;
        self.changed.notify_all();
        let waits = |counts: &mut Counts| {
            if is_first { counts.arrived < self.together } else { !counts.released }
        };
        drop(self.changed.wait_while(counts, waits).unwrap());
        503
    }
}

/// The path and the host of the next request, which has no body.
fn request(reader: &mut impl BufRead) -> Option<(String, String)> {
    let (mut path, mut host) = (None, String::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            return path.map(|path| (path, host));
        }
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("host") => host = value.to_owned(),
            _ if path.is_none() => path = line.split(' ').nth(1).map(str::to_owned),
            _ => {}
        }
    }
}
