//! A command as the handler of a job. It must get the whole payload even if the worker is killed, and its output must not
//! block the worker.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use redial_core::decide::{Class, Failure};
use redial_queue::durable::{Handled, Handler, Job, is_shortage};
use tokio::process::{ChildStderr, ChildStdout, Command};
use tokio::sync::Notify;

use super::commands::{Commands, Running};
use super::output::{Output, Stdout};
use crate::process::{ExitRules, Group, Status, is_missing, unnamed_file};
use crate::stderr::Stderr;

/// The exit code that requests a retry: `EX_TEMPFAIL` of sysexits.
const AGAIN: u8 = 75;
/// The most bytes of the last line that are kept.
const MOST_LINE: usize = 250;

/// The stdout and stderr of a command.
type Streams = (Option<ChildStdout>, Option<ChildStderr>);

/// Runs a command for each job.
pub(super) struct Exec {
    command: String,
    rules: ExitRules,
    commands: Arc<Commands>,
    stderr: Arc<Stderr>,
    stdout: Stdout,
}

impl Exec {
    pub(super) fn new(
        command: &str,
        rules: ExitRules,
        commands: Arc<Commands>,
        stderr: Arc<Stderr>,
    ) -> io::Result<Self> {
        Ok(Self { command: command.to_owned(), rules, commands, stderr, stdout: Stdout::start()? })
    }

    fn start(&self, job: &Job) -> io::Result<(Running, Streams)> {
        let input = payload_file(&job.payload)?;
        let starting = self.commands.starting();
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.command).process_group(0);
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_remove("REDIAL_KEY").env_remove("REDIAL_ATTEMPTS");
        command.envs(environment(job)).envs([starting.variable()]);
        let mut child = command.spawn()?;
        let streams = (child.stdout.take(), child.stderr.take());
        // It has not been waited for, so it has a pid.
        let leader = Pid::from_raw(child.id().unwrap_or_default() as i32);
        Ok((starting.watch(job.id, child, Group::own(leader)), streams))
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
        let (mut running, (stdout, stderr)) = match self.start(&job) {
            Ok(started) => started,
            Err(error) => return cannot_start(&error),
        };
        let mut last = LastLine::default();
        let (status, passed_on) = {
            let ended = [Notify::new(), Notify::new()];
            let both = async {
                let stdout = self.stdout.pass_on(stdout, &ended[0]);
                tokio::join!(stdout, last.read(stderr, &self.stderr, &ended[1])).0
            };
            let (mut reading, mut read) = (pin!(both), None);
            let status = loop {
                tokio::select! {
                    status = running.wait() => break status,
                    passed_on = &mut reading, if read.is_none() => read = Some(passed_on),
                }
            };
            ended.iter().for_each(Notify::notify_one);
            let passed_on = match read {
                Some(passed_on) => passed_on,
                None => reading.await,
            };
            (status, passed_on)
        };
        match status {
            Ok(status) => {
                let handled = match (self.handled(status, last.line()), passed_on) {
                    (Handled::Done, Err(error)) => {
                        Handled::WorkerFailed(format!("cannot write to stdout: {error}"))
                    }
                    (handled, _) => handled,
                };
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
        let Some(from) = from else { return };
        let (mut output, mut bytes) = (Output::new(from), [0; 4096]);
        while let Some(read) = output.read(&mut bytes, ended).await {
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
