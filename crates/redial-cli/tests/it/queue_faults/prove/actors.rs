//! The processes of one round, and what is done to them.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{panic, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::plan::{Actor, Fate, Fault, Kind, Moment, Outage, Role, Round};
use super::site::Site;
use super::{disturb, pause, payload};
use crate::queue_faults::{LEASE_MILLIS, numbers};

/// A fault does not wait longer than this for its moment. No result depends on it.
const PATIENCE_MILLIS: u64 = 3000;

/// The exit code of a worker that ends without waiting for anything.
const STOPPED_AT_ONCE: i32 = 143;

/// The result of one process, or of a round.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) offered: Vec<String>,
    pub(super) acknowledged: Vec<String>,
    /// The faults that took place. A kill that came too late is not one.
    pub(super) faults: Vec<Fault>,
}

/// Runs all processes of a round at once. When the faults have taken place and the producers have ended, the remaining
/// workers get SIGTERM.
pub(super) fn play(site: &Site, round: &Round) -> Outcome {
    let stage = Stage { site, round, before: Kind::ALL.map(|kind| site.effects(kind)) };
    let stage = &stage;
    let (mut outcome, mut left) = (Outcome::default(), Vec::new());
    thread::scope(|scope| {
        let actors = round.actors.iter().enumerate();
        let actors: Vec<_> =
            actors.map(|(at, actor)| scope.spawn(move || stage.act(at, actor))).collect();
        // In this thread: the kernel ends a server with the thread that has started it.
        for outage in &round.outages {
            outcome.faults.extend(stage.fail_server(outage));
        }
        for actor in actors {
            let (of_actor, process) = actor.join().unwrap_or_else(|why| panic::resume_unwind(why));
            outcome.offered.extend(of_actor.offered);
            outcome.acknowledged.extend(of_actor.acknowledged);
            outcome.faults.extend(of_actor.faults);
            left.extend(process);
        }
    });
    left.iter().for_each(|(_, process)| process.signal(Signal::SIGTERM));
    for (fate, process) in left {
        outcome.faults.extend(stage.end(fate, process));
    }
    outcome
}

/// A process that ends with its handle.
struct Process {
    child: Child,
    /// Where its stdout and stderr are written to.
    stdout: String,
    stderr: String,
    /// The other end of a stderr that is full.
    _unread: Option<std::io::PipeReader>,
}

impl Process {
    fn signal(&self, signal: Signal) {
        // One that has ended is still ours until it is waited for, so this signals no other process.
        let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
    }

    fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    fn status(&mut self) -> ExitStatus {
        crate::exit_code(&mut self.child);
        self.child.wait().unwrap()
    }

    /// Kills it, and returns whether it was still running.
    fn kill(&mut self) -> bool {
        let runs = self.runs();
        let _ = self.child.kill();
        self.child.wait().unwrap();
        runs
    }

    fn numbers(&self) -> Vec<i64> {
        numbers(&fs::read_to_string(&self.stdout).unwrap())
    }

    /// Whether a worker reports at its end that leases of its jobs ran out.
    fn has_lost_leases(&self) -> bool {
        let said = self.said();
        let events = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut ends = events.filter(|event| event["event"] == "ended");
        ends.any(|end| end["lost"] != 0 || end["stale"] != 0)
    }

    fn said(&self) -> String {
        let said = fs::read(&self.stderr).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Stage<'a> {
    site: &'a Site,
    round: &'a Round,
    /// The effects that there were before, of each kind.
    before: [u64; 2],
}

impl Stage<'_> {
    /// Runs one process up to the end of its fault. A worker that is still running is returned.
    fn act(&self, at: usize, actor: &Actor) -> (Outcome, Option<(Fate, Process)>) {
        match &actor.role {
            Role::Producer { lengths, as_lines } => {
                let name = |job| format!("{}-{at}-{job}", self.round.number);
                let names: Vec<String> = (0..lengths.len()).map(name).collect();
                let jobs = names.iter().zip(lengths);
                let jobs: Vec<_> =
                    jobs.map(|(name, length)| payload::make(name, *length)).collect();
                let (numbers, fault) = if *as_lines {
                    self.produce_lines(at, actor, &jobs)
                } else {
                    self.produce_one_by_one(at, actor, &jobs)
                };
                // Jobs are enqueued in the order of the lines, so the first n are acknowledged by n numbers.
                let acknowledged = names.iter().take(numbers).cloned().collect();
                let faults = fault.into_iter().collect();
                (Outcome { offered: names, acknowledged, faults }, None)
            }
            Role::Worker => {
                let (fault, process) = self.work(at, actor);
                let faults = fault.into_iter().collect();
                let process = process.map(|process| (actor.fate, process));
                (Outcome { faults, ..Outcome::default() }, process)
            }
        }
    }

    fn produce_lines(&self, at: usize, actor: &Actor, jobs: &[String]) -> (usize, Option<Fault>) {
        let command = self.site.add_lines(actor.kind);
        let mut process = self.start(&format!("{at}"), command, actor, Stdio::piped());
        let mut to = process.child.stdin.take().unwrap();
        let input = jobs.join("\n") + "\n";
        let feeder = thread::spawn(move || {
            let _ = to.write_all(input.as_bytes());
            to
        });
        let fault = if let Fate::Killed(moment) = actor.fate {
            // Its stdin stays open, so that it does not end before it is killed.
            let printed = |process: &Process| process.numbers().len() as u64;
            let most = moment.count.min(jobs.len() as u64);
            self.wait(Moment { count: most, ..moment }, &mut process, printed);
            let fault = process.kill().then_some(Fault::KillProducer);
            drop(feeder.join());
            fault
        } else {
            drop(feeder.join());
            self.end_producer(actor.fate, &mut process)
        };
        (process.numbers().len(), fault)
    }

    fn produce_one_by_one(
        &self,
        at: usize,
        actor: &Actor,
        jobs: &[String],
    ) -> (usize, Option<Fault>) {
        let scratch = &self.site.lab(actor.kind).scratch;
        let mut fault = None;
        for (job, payload) in jobs.iter().enumerate() {
            let name = format!("{at}-{job}");
            let file = scratch.file(&format!("{name}.payload"), payload);
            let command = self.site.add_one(actor.kind, &file);
            let mut process = self.start(&name, command, actor, Stdio::null());
            if let Fate::Killed(moment) = actor.fate {
                pause(moment.millis);
                fault = process.kill().then_some(Fault::KillProducer).or(fault);
            } else {
                fault = self.end_producer(actor.fate, &mut process).or(fault);
            }
            if process.numbers().is_empty() {
                return (job, fault);
            }
        }
        (jobs.len(), fault)
    }

    /// Waits for the end of a producer and checks its exit code.
    fn end_producer(&self, fate: Fate, process: &mut Process) -> Option<Fault> {
        let code = process.status().code();
        let fault = self.judge(fate, code, process);
        if fault == Some(Fault::RefusedClock) {
            assert!(process.numbers().is_empty(), "refused, and acknowledged a job");
        }
        fault
    }

    fn work(&self, at: usize, actor: &Actor) -> (Option<Fault>, Option<Process>) {
        let command = self.site.work(actor.kind, actor.fate == Fate::Stalled);
        let mut process = self.start(&format!("{at}"), command, actor, Stdio::null());
        let effects = |_: &Process| self.effects(actor.kind);
        match actor.fate {
            Fate::Killed(moment) => {
                self.wait(moment, &mut process, effects);
                (process.kill().then_some(Fault::KillWorker), None)
            }
            Fate::Stopped(moment, longer) => {
                self.wait(moment, &mut process, effects);
                process.signal(Signal::SIGSTOP);
                pause(LEASE_MILLIS + longer);
                process.signal(Signal::SIGCONT);
                (None, Some(process))
            }
            Fate::Clock(days) if is_refused(days) => {
                let code = process.status().code();
                (self.judge(actor.fate, code, &process), None)
            }
            _ => (None, Some(process)),
        }
    }

    /// Waits for the end of a worker that got SIGTERM, and checks its exit code.
    fn end(&self, fate: Fate, mut process: Process) -> Option<Fault> {
        let status = process.status();
        let was_early = status.code() == Some(STOPPED_AT_ONCE) && process.said().is_empty();
        if was_early || status.signal() == Some(Signal::SIGTERM as i32) {
            // It had not opened the store yet, so it has done nothing.
            return None;
        }
        match fate {
            Fate::Stopped(..) => {
                self.judge(Fate::Unharmed, status.code(), &process);
                process.has_lost_leases().then_some(Fault::StopWorker)
            }
            _ => self.judge(fate, status.code(), &process),
        }
    }

    /// Checks the exit code, and returns the fault that it shows.
    fn judge(&self, fate: Fate, code: Option<i32>, process: &Process) -> Option<Fault> {
        let said = process.said();
        assert!(!said.contains("panicked"), "{said}");
        let (fault, expected) = match fate {
            Fate::Clock(days) if is_refused(days) => (Some(Fault::RefusedClock), 2),
            Fate::Clock(_) => (Some(Fault::ShiftClock), 0),
            Fate::Stalled => (Some(Fault::StallStderr), 0),
            Fate::FullDisk(_) if code == Some(1) => {
                // The limit also holds for the file of a payload, which is in memory.
                let is_payload = said.contains("File too large");
                let is_store = said.contains("the store has stopped");
                assert!(is_store || is_payload, "{said}");
                (is_store.then_some(Fault::FillDisk), 1)
            }
            // It had nothing to write.
            Fate::FullDisk(_) => (None, 0),
            Fate::Unharmed | Fate::Killed(_) | Fate::Stopped(..) => (None, 0),
        };
        let is_cut_off = !self.round.outages.is_empty() && code == Some(1);
        assert!(code == Some(expected) || is_cut_off, "{fate:?} ended with {code:?}: {said}");
        fault
    }

    fn fail_server(&self, outage: &Outage) -> Option<Fault> {
        let total = || Kind::ALL.iter().map(|kind| self.effects(*kind)).sum::<u64>();
        wait_for(outage.at, || total() >= outage.at.count);
        if outage.restart && self.site.may_restart() {
            self.site.restart_server();
            return Some(Fault::RestartServer);
        }
        (self.site.cut_connections() > 0).then_some(Fault::CutConnections)
    }

    /// Since the round has begun.
    fn effects(&self, kind: Kind) -> u64 {
        self.site.effects(kind).saturating_sub(self.before[kind as usize])
    }

    /// Waits for the moment, or for the end of the process.
    fn wait(&self, moment: Moment, process: &mut Process, count: impl Fn(&Process) -> u64) {
        wait_for(moment, || !process.runs() || count(process) >= moment.count);
    }

    fn start(&self, name: &str, command: Command, actor: &Actor, stdin: Stdio) -> Process {
        let mut command = match actor.fate {
            Fate::Clock(days) => disturb::with_clock(command, days),
            Fate::FullDisk(kib) => disturb::with_file_limit(&command, kib),
            _ => command,
        };
        let scratch = &self.site.lab(actor.kind).scratch;
        let [stdout, stderr] = ["out", "err"].map(|end| scratch.path(&format!("{name}.{end}")));
        command.stdin(stdin).stdout(File::create(&stdout).unwrap());
        let unread = if actor.fate == Fate::Stalled {
            let (unread, full) = crate::full_pipe();
            command.stderr(full);
            Some(unread)
        } else {
            command.stderr(File::create(&stderr).unwrap());
            None
        };
        Process { child: command.spawn().unwrap(), stdout, stderr, _unread: unread }
    }
}

/// A store and a machine may differ by a week.
fn is_refused(days: i64) -> bool {
    days.abs() > 7
}

fn wait_for(moment: Moment, mut is_there: impl FnMut() -> bool) {
    const POLL: u64 = 5;
    let mut waited = 0;
    while waited < PATIENCE_MILLIS && !is_there() {
        pause(POLL);
        waited += POLL;
    }
    pause(moment.millis);
}
