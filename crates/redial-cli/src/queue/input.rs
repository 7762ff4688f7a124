//! What a new job is made of, as arguments.

use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use redial_queue::Priority;
use redial_queue::delivery::{self, Delivery};
use redial_queue::durable::{NewJob, Start, WhenWaiting};

use super::time;
use crate::duration;
use crate::failed::Failed;

const JOB: &str = "The job";

/// Where bytes come from: `@FILE`, `-` or `@-` for stdin, or else the text itself.
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
            "@" => return Err("@ needs the path of a file behind it".to_owned()),
            _ => match text.strip_prefix('@') {
                Some(path) => Self::File(path.to_owned()),
                None => Self::Text(text.to_owned()),
            },
        })
    }

    /// To read from, piece by piece.
    pub(super) fn open(&self) -> Result<Box<dyn Read>, Failed> {
        Ok(match self {
            Self::Text(text) => Box::new(io::Cursor::new(text.clone().into_bytes())),
            Self::File(path) => {
                Box::new(File::open(path).map_err(|error| Failed::input(path, error))?)
            }
            Self::Stdin => Box::new(io::stdin().lock()),
        })
    }

    /// All of it, if a job can have so much.
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

/// What any new job can have.
#[derive(clap::Args)]
pub(crate) struct About {
    /// What the job is about: jobs with the same key are done in order
    #[arg(long, value_name = "KEY", help_heading = JOB)]
    key: Option<String>,
    /// What becomes of it when a job with the same key waits
    #[arg(long, value_enum, default_value_t = Waiting::Append, requires = "key", help_heading = JOB)]
    when_waiting: Waiting,
    /// From 0 to 7: higher ones go first, and one that waits rises
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7), help_heading = JOB)]
    priority: Option<u8>,
    /// Start after this long, such as 5m
    #[arg(long, value_name = "TIME", value_parser = duration::read, help_heading = JOB)]
    after: Option<Duration>,
    /// Start not before then, such as 2026-11-15T18:30:00Z
    #[arg(long, value_name = "TIME", value_parser = time::read, conflicts_with = "after", help_heading = JOB)]
    at: Option<SystemTime>,
    /// The name of the policy that it is done under: a preset, or one that the worker has from --policies; without
    /// this, the worker's own
    #[arg(long, value_name = "NAME", help_heading = JOB)]
    policy: Option<String>,
    /// The same over all attempts, so that whoever does the work can tell; without this, a new one
    #[arg(long, value_name = "KEY", help_heading = JOB)]
    pub(super) idempotency_key: Option<String>,
    /// Print an object in a line for each job: its number, and what became of it
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Waiting {
    /// It is one more
    Append,
    /// It takes the other's place
    Replace,
    /// The other one will do
    Keep,
    /// It is refused
    Refuse,
}

impl About {
    /// The job, once there is something in it.
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

/// A job whose headers make it a delivery has to be a good one, and be told so before it is in the queue.
pub(super) fn check_delivery(
    headers: &[(String, String)],
    idempotency_key: Option<&str>,
) -> Result<(), Failed> {
    let wrong = |why: delivery::Invalid| Failed::Input(why.to_string());
    if !Delivery::is_one(headers) {
        return Ok(());
    }
    Delivery::of_headers(headers).map_err(wrong)?;
    idempotency_key.map_or(Ok(()), Delivery::check_key).map_err(wrong)
}

/// `Name: value`. A name may begin with the colon that the method and the URL of a delivery have.
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let form = || "a header such as 'Content-Type: text/plain'".to_owned();
    let rest = text.strip_prefix(':').unwrap_or(text);
    let (name, value) = rest.split_once(':').ok_or_else(form)?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || format!("{name}{value}").contains(char::is_control) {
        return Err(form());
    }
    let colon = if text.starts_with(':') { ":" } else { "" };
    Ok((format!("{colon}{name}"), value.to_owned()))
}
