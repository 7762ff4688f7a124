//! A command as the handler of a job. It must get the whole payload even if the worker is killed, and its stderr must not
//! block the worker.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use redial_core::decide::{Class, Failure};
use redial_queue::durable::{Handled, Handler, Job, is_shortage};
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, Command};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::commands::{Commands, Running};
use crate::process::{ExitRules, Group, Status, is_missing, unnamed_file};
use crate::stderr::Stderr;

/// The exit code that requests a retry: `EX_TEMPFAIL` of sysexits.
const AGAIN: u8 = 75;
/// After the command has ended, its children may keep its stderr open. A silence of this length counts as its end.
const LISTEN: Duration = Duration::from_millis(500);
/// The capacity of a pipe: what may still be in it when its command ends.
const PIPE: usize = 64 << 10;
/// The most bytes of the last line that are kept.
const MOST_LINE: usize = 250;

/// Runs a command for each job.
pub(super) struct Exec {
    command: String,
    rules: ExitRules,
    commands: Arc<Commands>,
    stderr: Arc<Stderr>,
}

impl Exec {
    pub(super) fn new(
        command: &str,
        rules: ExitRules,
        commands: Arc<Commands>,
        stderr: Arc<Stderr>,
    ) -> Self {
        Self { command: command.to_owned(), rules, commands, stderr }
    }

    fn start(&self, job: &Job) -> io::Result<(Running, Option<ChildStderr>)> {
        let input = payload_file(&job.payload)?;
        let starting = self.commands.starting();
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.command).process_group(0);
        command.stdin(input).stderr(Stdio::piped());
        command.env_remove("REDIAL_KEY").env_remove("REDIAL_ATTEMPTS");
        command.envs(environment(job)).envs([starting.variable()]);
        let mut child = command.spawn()?;
        let stderr = child.stderr.take();
        // It has not been waited for, so it has a pid.
        let leader = Pid::from_raw(child.id().unwrap_or_default() as i32);
        Ok((starting.watch(job.id, child, Group::own(leader)), stderr))
    }

    fn handled(&self, status: ExitStatus, last: Option<String>) -> Handled {
        let status = Status::from(status);
        let code = status.code();
        let class = match status {
            Status::Code(0) => return Handled::Done,
            Status::Code(AGAIN) => Class::Transient,
            Status::Code(code) if is_missing(code) && !self.rules.name(code) => {
                return Handled::WorkerFailed(missing(code, last));
            }
            // A signal from outside says nothing about the job, as when the machine shuts down.
            status => match self.rules.class(status, false) {
                Class::Cancelled => Class::Transient,
                class => class,
            },
        };
        let ended = match status {
            Status::Code(code) => format!("exit code {code}"),
            Status::Signal(signal) => match Signal::try_from(i32::from(signal)) {
                Ok(signal) => signal.as_str().to_owned(),
                Err(_) => format!("signal {signal}"),
            },
        };
        let cause = match last {
            Some(line) => format!("{ended}: {line}"),
            None => ended,
        };
        Handled::failed(Failure::new(class).code(u16::from(code)), cause)
    }
}

impl Handler for Exec {
    async fn handle(&self, job: Arc<Job>) -> Handled {
        self.commands.of(job.id).await;
        let (mut running, stderr) = match self.start(&job) {
            Ok(started) => started,
            Err(error) => return cannot_start(&error),
        };
        let mut last = LastLine::default();
        let status = {
            let ended = Notify::new();
            let (mut reading, mut read) = (pin!(last.read(stderr, &self.stderr, &ended)), false);
            let status = loop {
                tokio::select! {
                    status = running.wait() => break status,
                    () = &mut reading, if !read => read = true,
                }
            };
            ended.notify_one();
            if !read {
                reading.await;
            }
            status
        };
        match status {
            Ok(status) => {
                let handled = self.handled(status, last.line());
                if handled == Handled::Done {
                    running.leave();
                }
                handled
            }
            Err(error) => {
                let cause = format!("the result of the command is unknown: {error}");
                Handled::failed(Failure::new(Class::Transient), cause)
            }
        }
    }
}

/// A shortage of resources is not the job's failure, while headers that are too long for any command are not the machine's.
fn cannot_start(error: &io::Error) -> Handled {
    let why = format!("cannot start the command: {error}");
    match error.kind() {
        _ if is_shortage(error) => Handled::NotTried(why),
        io::ErrorKind::StorageFull => Handled::NotTried(why),
        io::ErrorKind::ArgumentListTooLong | io::ErrorKind::InvalidInput => {
            Handled::failed(Failure::new(Class::Permanent), why)
        }
        _ => Handled::WorkerFailed(why),
    }
}

fn missing(code: u8, last: Option<String>) -> String {
    let last = last.map(|line| format!(" ({line})")).unwrap_or_default();
    format!(
        "--exec: exit code {code}{last}: the command cannot be executed, so this worker stops; its jobs are not charged. \
         If the code is a result of a job, name it with --retry-on-exit or --stop-on-exit"
    )
}

/// An unnamed file with the payload, for one attempt. A pipe would end early, with a part of the payload, if this process
/// were killed.
fn payload_file(payload: &[u8]) -> io::Result<File> {
    let mut file = in_memory().or_else(|_| unnamed_file())?;
    file.write_all(payload)?;
    file.rewind()?;
    Ok(file)
}

#[cfg(target_os = "linux")]
fn in_memory() -> io::Result<File> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    Ok(memfd_create(c"redial-payload", MFdFlags::MFD_CLOEXEC)?.into())
}

#[cfg(not(target_os = "linux"))]
fn in_memory() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

fn environment(job: &Job) -> Vec<(String, String)> {
    let mut all = vec![
        ("REDIAL_QUEUE".to_owned(), job.queue.clone()),
        ("REDIAL_JOB_ID".to_owned(), job.id.to_string()),
        ("REDIAL_ATTEMPT".to_owned(), job.progress.attempts.to_string()),
        ("REDIAL_IDEMPOTENCY_KEY".to_owned(), job.idempotency_key.clone()),
    ];
    all.extend(job.key.iter().map(|key| ("REDIAL_KEY".to_owned(), key.clone())));
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    for (name, value) in &job.headers {
        let name = format!("REDIAL_HEADER_{}", name.chars().map(plain).collect::<String>());
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = format!("{known}, {value}"),
            None => all.push((name, value.clone())),
        }
    }
    all
}

/// Forwards the stderr of a command, and keeps its last line.
#[derive(Default)]
struct LastLine {
    whole: Vec<u8>,
    begun: Vec<u8>,
}

impl LastLine {
    /// Reads to the end of the stream, or, once the command has ended, until the rest of the pipe has been read.
    async fn read(&mut self, from: Option<ChildStderr>, to: &Stderr, ended: &Notify) {
        let Some(mut from) = from else { return };
        let (mut bytes, mut left) = ([0; 4096], None);
        while left != Some(0) {
            let read = match left {
                None => tokio::select! {
                    biased;
                    () = ended.notified() => {
                        left = Some(PIPE);
                        continue;
                    }
                    read = from.read(&mut bytes) => read,
                },
                Some(_) => match timeout(LISTEN, from.read(&mut bytes)).await {
                    Ok(read) => read,
                    Err(_) => return,
                },
            };
            let Ok(read @ 1..) = read else { return };
            left = left.map(|left: usize| left.saturating_sub(read));
            bytes[..read].iter().for_each(|byte| self.push(*byte));
            to.forward(&bytes[..read]).await;
        }
    }

    fn push(&mut self, byte: u8) {
        if byte != b'\n' {
            if self.begun.len() < MOST_LINE {
                self.begun.push(byte);
            }
        } else if !self.begun.trim_ascii().is_empty() {
            self.whole = std::mem::take(&mut self.begun);
        } else {
            self.begun.clear();
        }
    }

    fn line(&self) -> Option<String> {
        let last = if self.begun.trim_ascii().is_empty() { &self.whole } else { &self.begun };
        let last = last.trim_ascii();
        (!last.is_empty()).then(|| String::from_utf8_lossy(last).into_owned())
    }
}
