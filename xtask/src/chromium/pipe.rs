//! The DevTools protocol: JSON, each message ended by a zero. A reply has the number of its request; everything else is an
//! event of a session, and kept until its tab asks.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// A browser on a busy machine is slow; one that does not answer for this long has crashed.
const REPLY_WAIT: Duration = Duration::from_secs(120);

/// What came back: the result, or the error in Chromium's words.
type Reply = Result<Value, String>;

#[derive(Debug)]
pub(super) struct Pipe {
    input: Mutex<Option<ChildStdin>>,
    last: AtomicU64,
    waiting: Mutex<HashMap<u64, Sender<Reply>>>,
    /// Events by session, oldest first.
    events: Mutex<HashMap<String, Vec<Value>>>,
}

impl Pipe {
    pub(super) fn new(input: ChildStdin, output: ChildStdout) -> Arc<Self> {
        let pipe = Arc::new(Self {
            input: Mutex::new(Some(input)),
            last: AtomicU64::new(0),
            waiting: Mutex::default(),
            events: Mutex::default(),
        });
        let reader = Arc::clone(&pipe);
        thread::spawn(move || reader.read(output));
        pipe
    }

    fn read(&self, output: ChildStdout) {
        let mut output = BufReader::new(output);
        let mut message = Vec::new();
        while output.read_until(0, &mut message).is_ok_and(|read| read > 0) {
            message.pop_if(|last| *last == 0);
            if let Ok(value) = serde_json::from_slice::<Value>(&message) {
                self.take(value);
            }
            message.clear();
        }
        // The browser is gone: requests in flight fail.
        locked(&self.waiting).clear();
    }

    fn take(&self, mut message: Value) {
        let Some(id) = message["id"].as_u64() else {
            let session = message["sessionId"].as_str().unwrap_or_default().to_owned();
            if let Some(events) = locked(&self.events).get_mut(&session) {
                events.push(message);
            }
            return;
        };
        let reply = match message.get("error") {
            Some(error) => Err(error["message"].as_str().unwrap_or("failed").to_owned()),
            None => Ok(message["result"].take()),
        };
        if let Some(waiting) = locked(&self.waiting).remove(&id) {
            let _ = waiting.send(reply);
        }
    }

    /// Sends a command and waits for its reply.
    pub(super) fn call(&self, session: Option<&str>, method: &str, params: &Value) -> Reply {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let (sender, receiver) = channel();
        locked(&self.waiting).insert(id, sender);
        self.send(&message)?;
        match receiver.recv_timeout(REPLY_WAIT) {
            Ok(reply) => reply.map_err(|error| format!("{method}: {error}")),
            Err(_) => Err(format!("{method}: chromium does not answer, or has ended")),
        }
    }

    fn send(&self, message: &Value) -> Result<(), String> {
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let mut input = locked(&self.input);
        let sent = input.as_mut().map(|input| input.write_all(&bytes).and_then(|()| input.flush()));
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(format!("chromium has ended: {error}")),
            None => Err("chromium was stopped".to_owned()),
        }
    }

    /// Keeps the events of a session from now on.
    pub(super) fn listen(&self, session: &str) {
        locked(&self.events).insert(session.to_owned(), Vec::new());
    }

    pub(super) fn forget(&self, session: &str) {
        locked(&self.events).remove(session);
    }

    /// The parameters of the events with this name so far.
    pub(super) fn events(&self, session: &str, method: &str) -> Vec<Value> {
        let events = locked(&self.events);
        let of = events.get(session).into_iter().flatten();
        of.filter(|event| event["method"] == method).map(|event| event["params"].clone()).collect()
    }

    pub(super) fn close(&self) {
        locked(&self.input).take();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
