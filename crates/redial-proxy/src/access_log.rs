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
use http::{Extensions, HeaderValue, Method, Request, Response, StatusCode};
use jiff::Timestamp;
use redial::http::server::Refused;
use redial_core::Stop;
use redial_policy::file::AccessLog;
use serde_json::json;
use tokio::time::Instant;

use crate::clock;
use crate::config::snapshot::Upstream;
use crate::headers::names::TRACEPARENT;
use crate::log::{Line, Log};
use crate::responses;
use crate::upstream::attempt_log::{AttemptLog, SentAttempts};

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
    pub(crate) fn begin<B>(&self, upstream: &Arc<str>, request: &mut Request<B>) -> Entry {
        let mut record = self.record(upstream);
        record.head = Some((request.method().clone(), request.uri().path().to_owned()));
        record.trace = request.headers().get(TRACEPARENT).and_then(trace_id);
        request.extensions_mut().insert(record.attempts.clone());
        Entry(Some(record))
    }

    /// An invalid request head has arrived. hyper has answered it, or closed the connection.
    pub(crate) fn unreadable(&self, upstream: &Arc<str>, status: Option<StatusCode>) {
        let mut record = self.record(upstream);
        record.status = status;
        drop(Entry(Some(record)));
    }

    fn record(&self, upstream: &Arc<str>) -> Box<Record> {
        Box::new(Record {
            access: self.clone(),
            started: clock::now(),
            upstream: Arc::clone(upstream),
            head: None,
            trace: None,
            guards: None,
            status: None,
            attempts: AttemptLog::default(),
            stop: None,
            parked: Duration::ZERO,
            refused: None,
            incomplete: None,
            took: Duration::ZERO,
        })
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
    /// The method and the path; `None` if they could not be read.
    head: Option<(Method, String)>,
    /// The trace that the request belongs to.
    trace: Option<Box<str>>,
    /// The upstream, and the place of the request's policy among its policies.
    guards: Option<(Arc<Upstream>, usize)>,
    /// `None`: the caller left, or a drain ended, before there was a response; or the caller began with HTTP/2.
    status: Option<StatusCode>,
    attempts: AttemptLog,
    stop: Option<Stop>,
    parked: Duration,
    /// Why a layer in front of the upstream refused it.
    refused: Option<Refused>,
    /// What cut off the body of the response.
    incomplete: Option<&'static str>,
    took: Duration,
}

/// A request that will be logged when this is dropped, with its response.
pub(crate) struct Entry(Option<Box<Record>>);

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
        record.status = Some(response.status());
        let extensions: &Extensions = response.extensions();
        record.refused = extensions.get().copied();
        (record.stop, record.parked) = responses::ending(extensions);
    }

    /// The body of the response was cut off, by the `upstream`, by the `caller`, or at the limit of the `drain`.
    pub(crate) fn cut_off(&mut self, by: &'static str) {
        if let Some(record) = &mut self.0 {
            record.incomplete = Some(by);
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

    fn json(&self, time: Timestamp) -> String {
        let SentAttempts { count, endpoint } = self.attempts.get();
        let line = json!({
            "event": "request",
            "time": time.as_millisecond() as f64 / 1e3,
            "upstream": &*self.upstream,
            "method": self.head.as_ref().map(|(method, _)| method.as_str()),
            "path": self.head.as_ref().map(|(_, path)| Printable(path).to_string()),
            "status": self.status.map(|status| status.as_u16()),
            "ms": millis(self.took),
            "endpoint": endpoint.as_deref(),
            "attempts": count,
            "stop": self.stop.map(Stop::name),
            "parked_ms": Some(millis(self.parked)).filter(|parked| *parked > 0.0),
            "refused": self.refused.map(Refused::name),
            "incomplete": self.incomplete,
            "budget": self.balance(),
            "trace": self.trace.as_deref(),
        });
        format!("{line}\n")
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.upstream)?;
        match &self.head {
            Some((method, path)) => write!(f, "{method} {} ", Printable(path))?,
            None => f.write_str("- - ")?,
        }
        match self.status {
            Some(status) => write!(f, "{}", status.as_u16())?,
            None => f.write_str("-")?,
        }
        write!(f, " {:.1}ms", millis(self.took))?;
        let SentAttempts { count, endpoint } = self.attempts.get();
        if let Some(endpoint) = endpoint {
            write!(f, " endpoint={endpoint}")?;
        }
        write!(f, " attempts={count}")?;
        if let Some(stop) = self.stop {
            write!(f, " stop={}", stop.name())?;
        }
        if !self.parked.is_zero() {
            write!(f, " parked={:.3}s", self.parked.as_secs_f64())?;
        }
        if let Some(refused) = self.refused {
            write!(f, " refused={}", refused.name())?;
        }
        if let Some(side) = self.incomplete {
            write!(f, " incomplete={side}")?;
        }
        if let Some(balance) = self.balance() {
            write!(f, " budget={balance}")?;
        }
        match &self.trace {
            Some(trace) => write!(f, " trace={trace}"),
            None => Ok(()),
        }
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}

/// The second field of a `traceparent`: 32 hexadecimal digits.
fn trace_id(value: &HeaderValue) -> Option<Box<str>> {
    let id = value.to_str().ok()?.split('-').nth(1)?;
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.into())
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
