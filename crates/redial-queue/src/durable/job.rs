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
    /// What the handler gets.
    pub payload: Vec<u8>,
    /// What it gets besides.
    pub headers: Vec<(String, String)>,
    /// What the job is about. Jobs with the same key are done in order, as many at once as the
    /// [settings](super::Settings::per_key) say.
    pub key: Option<String>,
    /// What becomes of it when a job with the same key waits.
    pub when_waiting: WhenWaiting,
    /// Which jobs go first; one that waits rises.
    pub priority: Priority,
    /// When it may start.
    pub start: Start,
    /// The name of the policy that it is done under; the worker's own if there is none.
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

/// What becomes of a new job when another one with the same key waits. One that is running does not count: it has begun
/// with what was known then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenWaiting {
    /// It is one more, behind the others.
    #[default]
    Append,
    /// It takes the other's place, with attempts of its own. A failed job keeps the time of its retry, so that replacing it
    /// does not get around the backoff.
    Replace,
    /// The other one will do.
    Keep,
    /// It is refused.
    Refuse,
}

/// What became of a new job, and which job the store has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It is in the queue.
    Added(JobId),
    /// It is in the queue in place of another one.
    Replaced(JobId),
    /// Another one waits, and will do.
    Kept(JobId),
    /// Another one waits, so this one was refused.
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

    /// A job that may start at once, with an idempotency key of its own.
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

    /// With one more header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// About this key.
    pub fn key(self, key: impl Into<String>, when_waiting: WhenWaiting) -> Self {
        Self { key: Some(key.into()), when_waiting, ..self }
    }

    /// With this priority.
    pub fn priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Starting then.
    pub fn start(self, start: Start) -> Self {
        Self { start, ..self }
    }

    /// Under the policy with this name.
    pub fn policy(self, name: impl Into<String>) -> Self {
        Self { policy: Some(name.into()), ..self }
    }

    /// Whether a store can keep it.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        check_payload(&self.payload)?;
        check_headers(&self.headers)?;
        let names = [self.key.as_deref(), self.policy.as_deref(), Some(&*self.idempotency_key)];
        names.into_iter().flatten().try_for_each(check_name)
    }

    /// With the caller's own idempotency key.
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

/// A key, the name of a policy, or an idempotency key.
pub(crate) fn check_name(name: &str) -> Result<(), StoreError> {
    if name.len() > NewJob::MOST_NAME {
        return too_long("a key or the name of a policy", NewJob::MOST_NAME);
    }
    check_text(name)
}

/// Whether a queue can have this name.
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

/// A job as its store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// The queue that it is in.
    pub queue: String,
    /// What is going on with it.
    pub state: State,
    /// What the handler gets.
    pub payload: Vec<u8>,
    /// What it gets besides.
    pub headers: Vec<(String, String)>,
    /// What it is about.
    pub key: Option<String>,
    /// Which jobs go first.
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
    /// Attempts claimed so far, and how far the backoff has come.
    pub progress: Progress,
    /// What came of its last attempts, oldest first; at most [`Tried::KEPT`].
    pub history: Vec<Tried>,
    /// Why it is dead.
    pub reason: Option<String>,
}

/// What is going on with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It waits for its time, or its turn.
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
    /// What came of it, in a line.
    pub outcome: String,
}

impl Tried {
    /// How many attempts of a job are remembered.
    pub const KEPT: usize = 20;
    /// The most bytes of an outcome.
    pub const MOST_OUTCOME: usize = 300;
    /// The outcome of an attempt whose worker was not heard of again.
    pub const LOST: &'static str = "the lease ran out: the worker was not heard of again";
}
