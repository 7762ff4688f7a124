use std::fmt;
use std::time::{Duration, SystemTime};

use redial::Key;
use redial_core::Progress;

use super::StoreError;
use crate::memory::Priority;

/// The number of a job in its store. Later jobs have higher ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub i64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A job to be done.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// The data for the handler.
    pub payload: Vec<u8>,
    /// Names and values for the handler.
    pub headers: Vec<(String, String)>,
    /// What the job is about. Jobs with the same key are done in order, as many at once as the
    /// [settings](super::QueueSettings::per_key) say.
    pub key: Option<String>,
    /// What to do when a job with the same key waits.
    pub when_waiting: WhenWaiting,
    /// Jobs of a higher priority go first; a job that waits rises.
    pub priority: Priority,
    /// When it may start.
    pub start: Start,
    /// The name of its policy; `None` for the worker's own.
    pub policy: Option<String>,
    /// The same over all attempts, and over a redrive.
    pub idempotency_key: String,
}

/// When a job may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At once.
    #[default]
    Now,
    /// After this long.
    After(Duration),
    /// Not before this time.
    At(SystemTime),
}

/// What to do with a new job when another one with the same key waits. A job that runs does not count: it has started with
/// what was known then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenWaiting {
    /// Add it, behind the others.
    #[default]
    Append,
    /// Replace the other, with attempts counted from 0. A failed job keeps the time of its retry, so that a replacement does
    /// not get around the backoff.
    Replace,
    /// Keep the other, and drop the new one.
    Keep,
    /// Refuse the new one.
    Refuse,
}

/// What the store did with a new job, and which job it has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It was added.
    Added(JobId),
    /// It replaced this one.
    Replaced(JobId),
    /// This one waits and was kept, and the new one dropped.
    Kept(JobId),
    /// This one waits, so the new one was refused.
    Refused(JobId),
}

impl Enqueued {
    /// The job that is in the queue.
    pub fn id(self) -> JobId {
        match self {
            Self::Added(id) | Self::Replaced(id) | Self::Kept(id) | Self::Refused(id) => id,
        }
    }
}

impl NewJob {
    /// The most bytes of a payload.
    pub const MOST_PAYLOAD: usize = 16 << 20;
    /// The most bytes of all headers together, and of any other text.
    pub const MOST_TEXT: usize = 64 << 10;
    /// The most bytes of a key, a policy's name or an idempotency key.
    pub const MOST_NAME: usize = 512;

    /// A job that may start at once, with a new idempotency key.
    pub fn new(payload: impl Into<Vec<u8>>) -> Self {
        Self {
            payload: payload.into(),
            headers: Vec::new(),
            key: None,
            when_waiting: WhenWaiting::default(),
            priority: Priority::default(),
            start: Start::default(),
            policy: None,
            idempotency_key: Key::fresh().to_string(),
        }
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the key, and what to do when another job with it waits.
    pub fn key(self, key: impl Into<String>, when_waiting: WhenWaiting) -> Self {
        Self { key: Some(key.into()), when_waiting, ..self }
    }

    /// Sets the priority.
    pub fn priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Sets when it may start.
    pub fn start(self, start: Start) -> Self {
        Self { start, ..self }
    }

    /// Sets the policy, by name.
    pub fn policy(self, name: impl Into<String>) -> Self {
        Self { policy: Some(name.into()), ..self }
    }

    /// Checks that a store can keep it.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        check_payload(&self.payload)?;
        check_headers(&self.headers)?;
        let names = [self.key.as_deref(), self.policy.as_deref(), Some(&*self.idempotency_key)];
        names.into_iter().flatten().try_for_each(check_name)
    }

    /// Sets the idempotency key.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        Self { idempotency_key: key.into(), ..self }
    }
}

fn too_long(what: &str, most: usize) -> Result<(), StoreError> {
    Err(StoreError::Invalid(format!("{what} may have at most {most} bytes")))
}

pub(crate) fn check_payload(payload: &[u8]) -> Result<(), StoreError> {
    match payload.len() {
        ..=NewJob::MOST_PAYLOAD => Ok(()),
        _ => too_long("a payload", NewJob::MOST_PAYLOAD),
    }
}

pub(crate) fn check_headers(headers: &[(String, String)]) -> Result<(), StoreError> {
    let size: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > NewJob::MOST_TEXT {
        return too_long("all headers together", NewJob::MOST_TEXT);
    }
    let mut texts = headers.iter().flat_map(|(name, value)| [name, value]);
    texts.try_for_each(|text| check_text(text))
}

/// Checks a key, the name of a policy, or an idempotency key.
pub(crate) fn check_name(name: &str) -> Result<(), StoreError> {
    if name.len() > NewJob::MOST_NAME {
        return too_long("a key or the name of a policy", NewJob::MOST_NAME);
    }
    check_text(name)
}

/// Checks the name of a queue.
pub(crate) fn check_queue(name: &str) -> Result<(), StoreError> {
    if name.is_empty() || name.chars().count() > 100 || name.contains(char::is_control) {
        let why = "the name of a queue has 1 to 100 characters, and no control characters";
        return Err(StoreError::Invalid(why.to_owned()));
    }
    Ok(())
}

fn check_text(text: &str) -> Result<(), StoreError> {
    if text.contains('\0') {
        let why = "a key, a policy's name or a header has a NUL, which no database keeps";
        return Err(StoreError::Invalid(why.to_owned()));
    }
    Ok(())
}

/// A job in its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// The queue that it is in.
    pub queue: String,
    /// Its state.
    pub state: State,
    /// The data for the handler.
    pub payload: Vec<u8>,
    /// Names and values for the handler.
    pub headers: Vec<(String, String)>,
    /// What it is about.
    pub key: Option<String>,
    /// Jobs of a higher priority go first.
    pub priority: Priority,
    /// The name of its policy.
    pub policy: Option<String>,
    /// The same over all attempts.
    pub idempotency_key: String,
    /// When it was enqueued.
    pub created: SystemTime,
    /// When it may start; of a running job, when its lease runs out.
    pub due: SystemTime,
    /// When it was first claimed, since it was enqueued or last redriven. The deadline counts from here.
    pub begun: Option<SystemTime>,
    /// Attempts claimed so far, how far the backoff has come, and whether the next attempt is a poll.
    pub progress: Progress,
    /// Its last attempts, oldest first; at most [`Tried::KEPT`].
    pub history: Vec<Tried>,
    /// Why it is dead.
    pub reason: Option<String>,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It waits until it is due, or for a worker.
    Waiting,
    /// It waits for an earlier job with the same key.
    Held,
    /// A worker has leased it.
    Running,
    /// It was given up.
    Dead,
}

impl State {
    /// All of them, in the order of a job's life.
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Held, Self::Running, Self::Dead];

    /// The name in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }

    /// The state with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// An attempt that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// 1 is the first.
    pub number: u32,
    /// When it ended.
    pub ended: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// Its outcome, in a line.
    pub outcome: String,
}

impl Tried {
    /// How many attempts of a job are remembered.
    pub const KEPT: usize = 20;
    /// The most bytes of an outcome.
    pub const MOST_OUTCOME: usize = 300;
    /// The outcome of an attempt whose worker sent no heartbeat.
    pub const LOST: &'static str = "the lease ran out: the worker was not heard of again";
}
