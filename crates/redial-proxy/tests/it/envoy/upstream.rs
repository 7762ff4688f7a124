//! A server that does what the path of a request says, and counts requests by path.

use std::collections::{HashMap, HashSet};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::cells::Behaviour;
use crate::kit::{PATIENCE, Wire};

pub(super) struct Upstream {
    pub(super) port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    seen: Mutex<HashMap<String, usize>>,
    /// The paths whose callers have the head of a response.
    heads: Mutex<HashSet<String>>,
    head: Condvar,
}

impl Upstream {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<State>::default();
        let served = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&served);
                thread::spawn(move || state.serve(Wire::new(stream)));
            }
        });
        Self { port, state }
    }

    /// The number of requests for this path.
    pub(super) fn seen(&self, path: &str) -> usize {
        self.state.seen.lock().unwrap().get(path).copied().unwrap_or(0)
    }

    /// A caller has received the head of a response.
    pub(super) fn has_head(&self, path: &str) {
        self.state.heads.lock().unwrap().insert(path.to_owned());
        self.state.head.notify_all();
    }
}

impl State {
    /// Each connection has one request, so that no attempt fails because of one before it.
    fn serve(&self, mut wire: Wire<TcpStream>) {
        let Some(request) = wire.request() else { return };
        let path = request.start.split(' ').nth(1).unwrap().to_owned();
        *self.seen.lock().unwrap().entry(path.clone()).or_default() += 1;
        match Behaviour::from_word(path.split('/').nth(2).unwrap()) {
            Behaviour::Status(status) => {
                let head = "content-length: 2\r\nconnection: close";
                wire.send(format!("HTTP/1.1 {status} X\r\n{head}\r\n\r\nok"));
            }
            Behaviour::ResetBeforeHead => wire.reset(),
            Behaviour::ResetInHead => {
                wire.send("HTTP/1.1 200 OK\r\ncontent-le");
                wire.reset();
            }
            Behaviour::ResetAfterHead => {
                wire.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf ");
                let heads = self.heads.lock().unwrap();
                let waits = |heads: &mut HashSet<String>| !heads.contains(&path);
                drop(self.head.wait_timeout_while(heads, PATIENCE, waits).unwrap());
                wire.reset();
            }
            Behaviour::CloseBeforeHead => {}
            Behaviour::Hang => drop(wire.rest()),
            Behaviour::Refuse => panic!("{path} was sent to a port that is open"),
        }
    }
}
