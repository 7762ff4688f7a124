//! The arguments that describe a new job.

use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use redial_queue::Priority;
use redial_queue::delivery::{self, Delivery};
use redial_queue::durable::{NewJob, Start, WhenWaiting};

use super::time;
use crate::duration;
use crate::failed::Failed;

const JOB: &str = "Job";

/// Where bytes come from: `@FILE`, `-` or `@-` for stdin, or the text itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Text(String),
    File(String),
    Stdin,
}

impl Source {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        Ok(match text {
            "-" | "@-" => Self::Stdin,
            "@" => return Err("@ must be followed by the path of a file".to_owned()),
            _ => match text.strip_prefix('@') {
                Some(path) => Self::File(path.to_owned()),
                None => Self::Text(text.to_owned()),
            },
        })
    }

    /// A reader, for large input.
    pub(super) fn open(&self) -> Result<Box<dyn Read>, Failed> {
        Ok(match self {
            Self::Text(text) => Box::new(io::Cursor::new(text.clone().into_bytes())),
            Self::File(path) => {
                Box::new(File::open(path).map_err(|error| Failed::input(path, error))?)
            }
            Self::Stdin => Box::new(io::stdin().lock()),
        })
    }

    /// All bytes, if they fit into a payload.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, Failed> {
        let (mut bytes, most) = (Vec::new(), NewJob::MOST_PAYLOAD);
        let read = self.open()?.take(most as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| Failed::input(self.name(), error))?;
        if bytes.len() > most {
            return Err(Failed::input(self.name(), format!("a payload has at most {most} bytes")));
        }
        Ok(bytes)
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Text(_) => "the text",
            Self::File(path) => path,
            Self::Stdin => "stdin",
        }
    }
}

/// The arguments of any new job.
#[derive(clap::Args)]
pub(crate) struct JobArgs {
    /// The key of the job: jobs with the same key are processed in order
    #[arg(long, value_name = "KEY", help_heading = JOB)]
    key: Option<String>,
    /// What to do if a job with the same key is waiting
    #[arg(long, value_enum, default_value_t = Waiting::Append, requires = "key", help_heading = JOB)]
    when_waiting: Waiting,
    /// Priority from 0 to 7: higher ones go first, and the priority of a waiting job rises
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7), help_heading = JOB)]
    priority: Option<u8>,
    /// Delay before the first attempt, such as 5m
    #[arg(long, value_name = "TIME", value_parser = duration::read, help_heading = JOB)]
    after: Option<Duration>,
    /// Earliest time of the first attempt, such as 2026-11-15T18:30:00Z
    #[arg(long, value_name = "TIME", value_parser = time::read, conflicts_with = "after", help_heading = JOB)]
    at: Option<SystemTime>,
    /// The name of its policy: a preset, or one that the worker has from --policies [default: the worker's policy]
    #[arg(long, value_name = "NAME", help_heading = JOB)]
    policy: Option<String>,
    /// The key by which the receiver recognises a repeated attempt [default: a new UUID]
    #[arg(long, value_name = "KEY", help_heading = JOB)]
    pub(super) idempotency_key: Option<String>,
    /// Print a JSON object per line for each job: its number, and the result
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Waiting {
    /// Add the new job
    Append,
    /// Replace the waiting job
    Replace,
    /// Keep the waiting job, and do not add the new one
    Keep,
    /// Fail
    Refuse,
}

impl JobArgs {
    /// Applies the arguments to a job with a payload.
    pub(super) fn apply(&self, mut job: NewJob) -> NewJob {
        job.key.clone_from(&self.key);
        job.when_waiting = match self.when_waiting {
            Waiting::Append => WhenWaiting::Append,
            Waiting::Replace => WhenWaiting::Replace,
            Waiting::Keep => WhenWaiting::Keep,
            Waiting::Refuse => WhenWaiting::Refuse,
        };
        job.priority = self.priority.map_or(job.priority, Priority::new);
        job.start = match (self.after, self.at) {
            (Some(after), _) => Start::After(after),
            (None, Some(at)) => Start::At(at),
            (None, None) => Start::Now,
        };
        job.policy.clone_from(&self.policy);
        if let Some(key) = &self.idempotency_key {
            job.idempotency_key.clone_from(key);
        }
        job
    }
}

/// Validates the headers of a delivery before it is enqueued.
pub(super) fn check_delivery(
    headers: &[(String, String)],
    idempotency_key: Option<&str>,
) -> Result<(), Failed> {
    let wrong = |why: delivery::InvalidDelivery| Failed::Input(why.to_string());
    if !Delivery::is_delivery(headers) {
        return Ok(());
    }
    Delivery::of_headers(headers).map_err(wrong)?;
    idempotency_key.map_or(Ok(()), Delivery::check_key).map_err(wrong)
}

/// `Name: value`. A name may begin with a colon, as `:method` and `:url` of a delivery do.
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let form = || "not a header such as 'Content-Type: text/plain'".to_owned();
    let rest = text.strip_prefix(':').unwrap_or(text);
    let (name, value) = rest.split_once(':').ok_or_else(form)?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || format!("{name}{value}").contains(char::is_control) {
        return Err(form());
    }
    let colon = if text.starts_with(':') { ":" } else { "" };
    Ok((format!("{colon}{name}"), value.to_owned()))
}
