//! A private Redis for one test, and a fleet whose events are recorded.

use std::net::TcpStream;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use redial::admit::budget::{Budget, WindowBudget};
use redial::decide::{Class, Failure, Outcome};
use redial::fleet::{Fleet, FleetDraft, FleetEvent, FleetStats};
use redial::schedule::{Backoff, Jitter};
use redial::{Key, Policy, Rate, Retry};
use redial_core::{Span, Time};

/// Longer than any step takes.
pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) const SECOND: Span = Span::SECOND;

/// The time so many seconds after the start of virtual time.
pub(super) const fn sec(secs: u64) -> Time {
    Time::at(Span::from_secs(secs))
}

/// Any length in this range.
pub(super) fn spans(range: Range<Span>) -> impl Strategy<Value = Span> {
    (range.start.as_nanos()..range.end.as_nanos()).prop_map(Span::from_nanos)
}

/// Stops with the test. A restart keeps the port.
pub(super) struct Redis {
    pub(super) port: u16,
    child: Child,
    args: Vec<String>,
    folder: PathBuf,
}

impl Redis {
    /// `PORT` in an argument is replaced by its port.
    pub(super) fn start(args: &[&str]) -> Self {
        let port = free_port();
        let folder =
            std::env::temp_dir().join(format!("redial-fleet-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let args: Vec<String> =
            args.iter().map(|arg| arg.replace("PORT", &port.to_string())).collect();
        let child = spawn(port, &args, &folder);
        let redis = Self { port, child, args, folder };
        redis.wait();
        redis
    }

    fn wait(&self) {
        until("Redis listens", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(super) fn start_again(&mut self) {
        self.child = spawn(self.port, &self.args, &self.folder);
        self.wait();
    }

    /// `-STOP` and `-CONT`.
    pub(super) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        command(&self.url(), words)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(super) fn free_port() -> u16 {
    crate::ports::free_address().port()
}

fn spawn(port: u16, args: &[String], folder: &PathBuf) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--save", "", "--appendonly", "no", "--dir"]).arg(folder).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().expect("redis-server is not installed: run `cargo xtask setup`")
}

pub(super) fn command<T: redis::FromRedisValue>(url: &str, words: &[&str]) -> T {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]).query(&mut connection).unwrap()
}

/// The Redis shared by all tests.
pub(super) fn shared() -> String {
    crate::idempotency::support::redis_url()
}

/// A unique name.
pub(super) fn name() -> String {
    Key::fresh().to_string()
}

pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LONG, "{what}: not after {LONG:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(super) fn window(floor: u32) -> WindowBudget {
    WindowBudget::ratio(0.1).floor(Rate::per_second(floor)).ttl(Duration::from_secs(4))
}

/// Two attempts with a wait that is long enough for a lease.
pub(super) fn policy(budget: WindowBudget, wait: Duration) -> Policy {
    let backoff = Backoff::constant(wait).jitter(Jitter::None);
    let draft = Policy::draft().attempts(2).without_deadline().backoff(backoff);
    draft.budget(Budget::Window(budget)).build().unwrap()
}

pub(super) const WAIT: Duration = Duration::from_millis(50);

/// An instance of a fleet with a floor of 100 retries a second.
pub(super) fn retry(fleet: &Fleet) -> Retry {
    Retry::new(policy(window(100), WAIT)).fleet(fleet).unwrap()
}

/// Makes a call that always fails. Returns the number of attempts.
pub(super) fn fails(retry: &Retry) -> u32 {
    let mut attempts = 0;
    let failed = retry
        .clone()
        .classify(|_: &Result<(), ()>| -> Outcome { Failure::new(Class::Transient).into() });
    let failed = failed.idempotent().run_blocking(|_| {
        attempts += 1;
        Err::<(), ()>(())
    });
    assert!(failed.is_err());
    attempts
}

/// Makes calls until one of them is retried.
pub(super) fn retries(retry: &Retry) {
    until("a retry", || fails(retry) == 2);
}

/// A fleet whose events are recorded.
pub(super) struct ObservedFleet {
    pub(super) fleet: Fleet,
    events: Mutex<Receiver<FleetEvent>>,
}

impl ObservedFleet {
    pub(super) fn open(url: &str) -> Self {
        Self::draft(Fleet::draft(url, &name()))
    }

    pub(super) fn draft(draft: FleetDraft) -> Self {
        let (sender, events) = mpsc::channel();
        let draft = draft.observe(move |event| drop(sender.send(event.clone())));
        Self { fleet: draft.open().unwrap(), events: Mutex::new(events) }
    }

    pub(super) fn next(&self) -> FleetEvent {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.recv_timeout(LONG).expect("an event")
    }

    pub(super) fn all(&self) -> Vec<FleetEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).try_iter().collect()
    }

    /// Asserts that the next event is a loss with this name. Returns its message.
    pub(super) fn loses(&self, what: &str) -> String {
        match self.next() {
            FleetEvent::Lost { error, .. } => {
                assert_eq!(error.name(), what, "{error}");
                error.to_string()
            }
            other => panic!("{other} instead of a loss"),
        }
    }

    pub(super) fn reaches(&self) -> u64 {
        match self.next() {
            FleetEvent::Reached { members, .. } => members,
            other => panic!("{other} instead of a connection"),
        }
    }

    /// Skips losses, which may be of several kinds while a server restarts.
    pub(super) fn reaches_again(&self) {
        loop {
            match self.next() {
                FleetEvent::Reached { .. } => return,
                FleetEvent::Lost { .. } => {}
                other => panic!("{other} instead of a connection"),
            }
        }
    }

    pub(super) fn stats(&self) -> FleetStats {
        self.fleet.stats().into_iter().next().unwrap()
    }
}
