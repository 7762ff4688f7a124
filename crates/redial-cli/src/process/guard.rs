//! A process that is killed with SIGKILL cannot end the commands that it has started. They would continue without it:
//! with half of their input, and beside the process that takes over their work.
//!
//! The guard is a second process of this program. Its stdin is a pipe from the guarded process. When that process ends,
//! for any reason, the guard reads the end of the pipe and kills the commands that are left. Unlike the parent-death
//! signal of Linux, this needs no `unsafe`, and it also reaches the children of the commands.
//!
//! One line on the pipe is one [`Message`].

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::{Pid, dup2_stdout};
use redial::Key;

/// The environment variable by which the guard finds a command whose process group it has not been sent.
pub(crate) const MARK: &str = "REDIAL_GUARD";

/// A command that was being started when its parent was killed appears within this time.
const START_TIME: Duration = Duration::from_millis(100);

/// What the guard kills when the guarded process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Group(Pid),
    /// One process, because its group includes others.
    Process(Pid),
}

/// A line on the pipe to the guard. The number identifies a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    /// A command is about to be started.
    Starting(u64),
    Started(u64, Target),
    /// The command has ended, or may outlive us.
    Over(u64),
    /// The command has read all of its input.
    CloseInput,
}

impl Message {
    fn line(self) -> String {
        match self {
            Self::Starting(number) => format!("starting {number}\n"),
            Self::Started(number, Target::Group(pid)) => format!("group {number} {pid}\n"),
            Self::Started(number, Target::Process(pid)) => format!("process {number} {pid}\n"),
            Self::Over(number) => format!("over {number}\n"),
            Self::CloseInput => "close-input\n".to_owned(),
        }
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let name = words.next()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        if name == "close-input" {
            return Some(Self::CloseInput);
        }
        let command = number()?;
        let mut pid = || Some(Pid::from_raw(i32::try_from(number()?).ok().filter(|pid| *pid > 1)?));
        Some(match name {
            "starting" => Self::Starting(command),
            "group" => Self::Started(command, Target::Group(pid()?)),
            "process" => Self::Started(command, Target::Process(pid()?)),
            "over" => Self::Over(command),
            _ => return None,
        })
    }
}

/// The guard of all commands of this process.
pub(crate) struct Guard {
    process: Process,
    token: String,
    last: u64,
    /// The commands that the guard knows, so that another guard can replace it.
    commands: BTreeMap<u64, Option<Target>>,
}

impl Guard {
    pub(crate) fn start() -> io::Result<Self> {
        let token = Key::fresh().to_string();
        let process = Process::start(&token, None, None)?;
        Ok(Self { process, token, last: 0, commands: BTreeMap::new() })
    }

    /// Announces a command. The value of [`MARK`] must be in the environment of the command.
    pub(crate) fn starting(&mut self) -> (u64, String) {
        self.last += 1;
        self.commands.insert(self.last, None);
        self.send(Message::Starting(self.last));
        (self.last, mark(&self.token, self.last))
    }

    pub(crate) fn started(&mut self, number: u64, target: Target) {
        self.commands.insert(number, Some(target));
        self.send(Message::Started(number, target));
    }

    pub(crate) fn over(&mut self, number: u64) {
        self.commands.remove(&number);
        self.send(Message::Over(number));
    }

    /// Replaces a guard that was killed, or was stopped and does not read.
    fn send(&mut self, message: Message) {
        if self.process.send(message).is_ok() {
            return;
        }
        let Ok(process) = Process::start(&self.token, None, None) else { return };
        std::mem::replace(&mut self.process, process).dismiss();
        for (number, target) in &self.commands {
            let message =
                target.map_or(Message::Starting(*number), |t| Message::Started(*number, t));
            // If this fails too, the next message starts the next guard.
            let _ = self.process.send(message);
        }
    }
}

/// The guard of a single command that is already running.
pub(crate) struct CommandGuard(Process);

impl CommandGuard {
    /// `input` is the writing end of the command's stdin. The guard keeps it open, so that the command does not read the
    /// end of its input when this process is killed.
    pub(crate) fn start(target: Target, input: Option<OwnedFd>) -> io::Result<Self> {
        Process::start("", input, Some(Message::Started(0, target))).map(Self)
    }

    pub(crate) fn close_input(&mut self) {
        // Without a guard there is no second writing end.
        let _ = self.0.send(Message::CloseInput);
    }
}

impl Drop for CommandGuard {
    fn drop(&mut self) {
        self.0.dismiss();
    }
}

struct Process {
    child: Child,
    pipe: File,
}

impl Process {
    /// `first` is written to the pipe before the guard starts, so that it is not lost if we are killed early.
    fn start(token: &str, input: Option<OwnedFd>, first: Option<Message>) -> io::Result<Self> {
        let (from, to) = io::pipe()?;
        let mut pipe = File::from(OwnedFd::from(to));
        if let Some(message) = first {
            pipe.write_all(message.line().as_bytes())?;
        }
        // A guard that does not read must not block us.
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        // The file of this program may have been replaced since it started.
        let own = if cfg!(target_os = "linux") {
            "/proc/self/exe".into()
        } else {
            std::env::current_exe()?
        };
        let mut command = Command::new(own);
        command.arg0("redial").arg("guard").arg(token);
        // A group of its own: Ctrl-C is not meant for it.
        command.stdin(from).stderr(Stdio::null()).process_group(0);
        command.stdout(input.map_or_else(Stdio::null, Stdio::from)).current_dir("/");
        Ok(Self { child: command.spawn()?, pipe })
    }

    /// Ends the guard before it reads the end of its pipe, so that it kills nothing.
    fn dismiss(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Lines are short enough for a pipe to write them atomically.
    fn send(&mut self, message: Message) -> io::Result<()> {
        self.pipe.write_all(message.line().as_bytes())
    }
}

/// Ends the commands of a process that was killed
#[derive(clap::Args)]
pub(crate) struct Args {
    token: String,
}

/// The main loop of the guard. Signals for the guarded process do not end it.
pub(crate) fn run(args: &Args) -> io::Result<()> {
    SigSet::all().thread_block()?;
    let mut commands = BTreeMap::new();
    for line in io::stdin().lock().lines() {
        match Message::read(&line?) {
            Some(Message::Starting(number)) => drop(commands.insert(number, None)),
            Some(Message::Started(number, target)) => drop(commands.insert(number, Some(target))),
            Some(Message::Over(number)) => drop(commands.remove(&number)),
            Some(Message::CloseInput) => dup2_stdout(File::open("/dev/null")?)?,
            // The first half of a line: the writer was killed.
            None => {}
        }
    }
    let mut unknown = Vec::new();
    for (number, target) in commands {
        match target {
            Some(target) => end(target),
            None => unknown.push(mark(&args.token, number)),
        }
    }
    if !unknown.is_empty() {
        end_marked(&unknown);
        wait(START_TIME);
        end_marked(&unknown);
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "the guard has nothing else to wait for")]
fn wait(time: Duration) {
    thread::sleep(time);
}

fn end(target: Target) {
    // It may have ended.
    let _ = match target {
        Target::Group(leader) => killpg(leader, Signal::SIGKILL),
        Target::Process(pid) => kill(pid, Signal::SIGKILL),
    };
}

fn mark(token: &str, number: u64) -> String {
    format!("{token}.{number}")
}

/// Kills the groups of processes that have one of these marks in their environment.
fn end_marked(marks: &[String]) {
    let Ok(all) = fs::read_dir("/proc") else { return };
    let marks: Vec<String> = marks.iter().map(|mark| format!("{MARK}={mark}")).collect();
    for process in all.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        if variables.any(|variable| marks.iter().any(|mark| mark.as_bytes() == variable)) {
            let pid = Pid::from_raw(pid);
            end(nix::unistd::getpgid(Some(pid)).map_or(Target::Process(pid), Target::Group));
        }
    }
}
