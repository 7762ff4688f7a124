//! The access log: a line for each request, when its response has been sent.
//!
//! A request only puts a record into a bounded queue. A thread of its own formats the lines and passes them on, and
//! when it does not keep up, records are dropped and counted.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;
use std::{fmt, io, thread};

use http::request::Parts;
use http::{Extensions, Method, Response, StatusCode};
use jiff::Timestamp;
use redial::http::Attempts;
use redial_core::Stop;
use redial_policy::file::AccessLog;
use serde_json::json;
use tokio::time::Instant;

use crate::clock;
use crate::options::{Line, Log};
use crate::world::Upstream;

/// How many requests may wait for the thread.
const QUEUE: usize = 8192;
/// The thread is woken at most this often: waking it costs a request more than its record.
const BATCH: Duration = Duration::from_millis(10);
/// How long the end of the process waits for the last lines.
const LAST_FLUSH: Duration = Duration::from_secs(1);

/// The queue of the access log.
#[derive(Clone)]
pub(crate) struct Access {
    queue: SyncSender<Item>,
    dropped: Arc<AtomicU64>,
}

enum Item {
    Request(Box<Record>),
    /// Answered when all requests before it have been logged.
    Flush(SyncSender<()>),
}

impl Access {
    /// Starts the thread. `None` if there is no access log.
    pub(crate) fn start(form: AccessLog, log: Option<Arc<Log>>) -> io::Result<Option<Self>> {
        let Some(log) = log.filter(|_| form != AccessLog::None) else { return Ok(None) };
        let (queue, items) = sync_channel(QUEUE);
        let dropped = Arc::<AtomicU64>::default();
        let writer = Writer { form, log, items, dropped: Arc::clone(&dropped), reported: 0 };
        thread::Builder::new().name("access-log".to_owned()).spawn(|| writer.run())?;
        Ok(Some(Self { queue, dropped }))
    }

    /// A request has arrived at the listener of this upstream.
    pub(crate) fn begin(&self, upstream: &Arc<str>, method: &Method, path: &str) -> Entry {
        let record = Record {
            access: self.clone(),
            started: clock::now(),
            upstream: Arc::clone(upstream),
            method: method.clone(),
            path: path.to_owned(),
            guards: None,
            status: None,
            endpoint: None,
            attempts: None,
            stop: None,
            took: Duration::ZERO,
        };
        Entry(Some(Box::new(record)))
    }

    /// How many lines have been dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until everything is logged, but not for long.
    pub(crate) fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if self.queue.try_send(Item::Flush(done)).is_ok() {
            // Too late or not: the process ends.
            let _ = wait.recv_timeout(LAST_FLUSH);
        }
    }
}

struct Record {
    access: Access,
    started: Instant,
    upstream: Arc<str>,
    method: Method,
    path: String,
    /// The upstream, and the place of the request's policy among its policies.
    guards: Option<(Arc<Upstream>, usize)>,
    /// `None`: the caller left, or a drain ended, before there was a response.
    status: Option<StatusCode>,
    endpoint: Option<Arc<str>>,
    attempts: Option<u32>,
    stop: Option<Stop>,
    took: Duration,
}

/// A request that will be logged when this is dropped, with its response.
pub(crate) struct Entry(Option<Box<Record>>);

/// Which endpoint a response comes from: one of its extensions, if there is an access log.
#[derive(Clone)]
pub(crate) struct ServedBy(pub(crate) Arc<str>);

/// How many attempts were made without a response, and why no more: an extension of the proxy's own answer.
#[derive(Clone, Copy)]
pub(crate) struct GaveUp {
    pub(crate) attempts: u32,
    pub(crate) stop: Stop,
}

impl Entry {
    /// The request is sent to this upstream.
    pub(crate) fn forwarded(&mut self, upstream: &Arc<Upstream>, request: &Parts) {
        if let Some(record) = &mut self.0 {
            record.guards = Some((Arc::clone(upstream), upstream.policy_of(request)));
        }
    }

    /// The response is about to be sent.
    pub(crate) fn answered<B>(&mut self, response: &Response<B>) {
        let Some(record) = &mut self.0 else { return };
        (record.status, record.attempts) = (Some(response.status()), Some(0));
        let extensions: &Extensions = response.extensions();
        if let Some(GaveUp { attempts, stop }) = extensions.get() {
            (record.attempts, record.stop) = (Some(*attempts), Some(*stop));
        } else if let Some(ServedBy(endpoint)) = extensions.get() {
            let attempts = Attempts::of(extensions);
            record.endpoint = Some(Arc::clone(endpoint));
            (record.attempts, record.stop) = (Some(attempts.made()), attempts.stopped());
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(mut record) = self.0.take() else { return };
        record.took = clock::now() - record.started;
        let access = record.access.clone();
        if access.queue.try_send(Item::Request(record)).is_err() {
            access.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The thread that formats lines.
struct Writer {
    form: AccessLog,
    log: Arc<Log>,
    items: Receiver<Item>,
    dropped: Arc<AtomicU64>,
    /// How many dropped lines have been reported.
    reported: u64,
}

impl Writer {
    fn run(mut self) {
        while let Ok(first) = self.items.recv() {
            let time = Timestamp::try_from(clock::wall()).unwrap_or_default();
            self.write(first, time);
            loop {
                match self.items.try_recv() {
                    Ok(item) => self.write(item, time),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.report_dropped();
            thread::park_timeout(BATCH);
        }
    }

    fn write(&self, item: Item, time: Timestamp) {
        let line = match item {
            Item::Request(record) if self.form == AccessLog::Json => record.json(time),
            Item::Request(record) => format!("{time:.3} {record}\n"),
            Item::Flush(done) => return drop(done),
        };
        (self.log)(Line::Access(line));
    }

    fn report_dropped(&mut self) {
        let dropped = self.dropped.load(Ordering::Relaxed);
        let new = dropped - std::mem::replace(&mut self.reported, dropped);
        if new > 0 {
            let message = format!("{new} lines of the access log were dropped: too many requests");
            (self.log)(Line::Event { name: "dropped", message });
        }
    }
}

impl Record {
    /// What is left of the budget.
    fn balance(&self) -> Option<u64> {
        let (upstream, place) = self.guards.as_ref()?;
        upstream.retries.get(*place)?.1.balance()
    }

    fn millis(&self) -> f64 {
        self.took.as_micros() as f64 / 1e3
    }

    fn json(&self, time: Timestamp) -> String {
        let line = json!({
            "event": "request",
            "time": time.as_millisecond() as f64 / 1e3,
            "upstream": &*self.upstream,
            "method": self.method.as_str(),
            "path": Printable(&self.path).to_string(),
            "status": self.status.map(|status| status.as_u16()),
            "ms": self.millis(),
            "endpoint": self.endpoint.as_deref(),
            "attempts": self.attempts,
            "stop": self.stop.map(Stop::name),
            "budget": self.balance(),
        });
        format!("{line}\n")
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { upstream, method, path, .. } = self;
        write!(f, "{upstream} {method} {} ", Printable(path))?;
        match self.status {
            Some(status) => write!(f, "{}", status.as_u16())?,
            None => f.write_str("-")?,
        }
        write!(f, " {:.1}ms", self.millis())?;
        if let Some(endpoint) = &self.endpoint {
            write!(f, " endpoint={endpoint}")?;
        }
        if let Some(attempts) = self.attempts {
            write!(f, " attempts={attempts}")?;
        }
        if let Some(stop) = self.stop {
            write!(f, " stop={}", stop.name())?;
        }
        match self.balance() {
            Some(balance) => write!(f, " budget={balance}"),
            None => Ok(()),
        }
    }
}

/// A path, percent-encoded where it is not visible ASCII: terminals act on some of the rest.
struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.bytes().all(|byte| byte.is_ascii_graphic()) {
            return f.write_str(self.0);
        }
        self.0.bytes().try_for_each(|byte| match byte {
            b'!'..=b'~' => f.write_char(byte.into()),
            _ => write!(f, "%{byte:02X}"),
        })
    }
}
