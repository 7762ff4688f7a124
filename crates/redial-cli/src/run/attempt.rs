//! One attempt: a command is started, fed, listened to, and ended if it takes too long.

use std::ffi::OsString;
use std::io;
use std::mem;
use std::os::fd::BorrowedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus};

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use redial_core::{NEVER, Nanos};

use super::clock;
use super::group::{Group, Grouping};
use super::output::{Routes, Stream};
use super::scan::{Found, Patterns};
use super::signals::{Signals, ends};
use super::stdin::{Feed, Stdin};
use super::wait;
use crate::guard::CommandGuard;

/// After the command has ended, what it left behind may still print. So long a silence is taken for the end …
const SILENCE: Nanos = 500_000_000;
/// … and so long is the longest that we listen.
const LONGEST_DRAIN: Nanos = 5_000_000_000;
/// How often we look whether a group is gone, of which nothing tells us.
const GLANCE: Nanos = 5_000_000;

/// How long a command runs without a guard. Starting one costs about as much as all of us, and most of the commands that
/// are quicker than this are over by then.
const HEAD_START: Nanos = 20_000_000;

/// What all attempts of a call have in common.
pub(super) struct Setting {
    pub(super) command: Vec<OsString>,
    pub(super) environment: Vec<(&'static str, String)>,
    pub(super) patterns: Patterns,
    pub(super) routes: Routes,
    pub(super) grouping: Grouping,
    pub(super) grace: Nanos,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Code(u8),
    Signal(u8),
}

impl Status {
    /// As a shell puts it.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + (signal & 127),
        }
    }
}

impl From<ExitStatus> for Status {
    fn from(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) => Self::Signal(signal as u8),
            None => Self::Code(status.code().unwrap_or(0) as u8),
        }
    }
}

/// What came of it.
pub(super) struct End {
    pub(super) status: Status,
    /// We ended it because its time was over.
    pub(super) timed_out: bool,
    /// The user ended it.
    pub(super) user: Option<Signal>,
    pub(super) found: Found,
    pub(super) streams: Vec<Stream>,
    pub(super) group: Group,
}

impl Setting {
    /// Starts the command and stays with it to its end. The outer error is ours, the inner one is why the command could
    /// not be started.
    pub(super) fn attempt(
        &self,
        number: u32,
        expires: Nanos,
        stdin: &mut Stdin,
        signals: &mut Signals,
    ) -> io::Result<Result<End, io::Error>> {
        let (program, args) = self.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(args).env("REDIAL_ATTEMPT", number.to_string());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if self.grouping != Grouping::Shared {
            command.process_group(0);
        }
        stdin.connect(&mut command)?;
        let streams = self.routes.connect(&mut command)?;
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Err(error)),
        };
        // Our copies of the command's ends, without which no end would ever come.
        drop(command);
        let group = Group::new(Pid::from_raw(child.id() as i32), self.grouping);
        let feed = stdin.feed(child.stdin.take())?;
        let guarding = Guarding::From(clock::now().saturating_add(HEAD_START));
        let (phase, user) = (Phase::Runs, None);
        let mut watch = Watch { setting: self, child, group, streams, feed, guarding, phase, user };
        let end = watch.until_it_ends(expires, signals);
        if end.is_err() {
            // Nothing else would end it, and it must not read that its input ends here.
            group.signal(Signal::SIGKILL);
        }
        drop(watch);
        group.take_terminal();
        end.map(Ok)
    }

    /// Ends what a failed attempt left behind, so that two attempts never run at once. Says which signal came meanwhile.
    pub(super) fn sweep(&self, group: Group, signals: &mut Signals) -> io::Result<Option<Signal>> {
        if !group.remains() {
            return Ok(None);
        }
        group.terminate();
        let kill_at = clock::now().saturating_add(self.grace);
        while group.remains() && clock::now() < kill_at {
            if let Some(signal) = wait::pause(clock::now() + GLANCE, signals)? {
                group.signal(Signal::SIGKILL);
                return Ok(Some(signal));
            }
        }
        group.signal(Signal::SIGKILL);
        Ok(None)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Runs,
    /// It was asked to end, and is made to then.
    Asked(Nanos),
    Killed,
}

/// The command has ended, and its output may not have.
#[derive(Clone, Copy)]
struct Drain {
    status: Status,
    silent_at: Nanos,
    latest: Nanos,
}

/// What ends the command if we are killed.
enum Guarding {
    /// A guard is started at this time.
    From(Nanos),
    By(CommandGuard),
    /// It could not be started.
    Failed,
}

struct Watch<'a> {
    setting: &'a Setting,
    child: Child,
    group: Group,
    streams: Vec<Stream>,
    feed: Option<Feed<'a>>,
    guarding: Guarding,
    phase: Phase,
    user: Option<Signal>,
}

impl Watch<'_> {
    fn until_it_ends(&mut self, expires: Nanos, signals: &mut Signals) -> io::Result<End> {
        let mut found = Found::default();
        let mut drain: Option<Drain> = None;
        loop {
            let now = clock::now();
            self.hurry(now, expires, drain.is_some());
            if let Some(drain) = drain
                && self.is_over(drain, now)
            {
                let patterns = &self.setting.patterns;
                self.streams.iter_mut().for_each(|stream| stream.give_up(patterns, &mut found));
                let (timed_out, streams) =
                    (self.phase != Phase::Runs, mem::take(&mut self.streams));
                let (status, user, group) = (drain.status, self.user, self.group);
                return Ok(End { status, timed_out, user, found, streams, group });
            }
            if drain.is_none() {
                self.guard(now);
            }
            let more = self.wait(self.wake(expires, drain), signals, &mut found)?;
            if let (Some(drain), true) = (&mut drain, more) {
                drain.silent_at = clock::now().saturating_add(SILENCE);
            }
            self.hear(signals);
            if drain.is_none()
                && let Some(status) = self.child.try_wait()?
            {
                let now = clock::now();
                let (silent_at, latest) = (now + SILENCE, now + LONGEST_DRAIN);
                drain = Some(Drain { status: status.into(), silent_at, latest });
                self.feed = None;
            }
        }
    }

    fn guard(&mut self, now: Nanos) {
        if matches!(self.guarding, Guarding::From(at) if now >= at) {
            let input = self.feed.as_ref().and_then(|feed| feed.input().ok());
            // Without a guard the command goes on if we are killed, which is no reason to end it now.
            let escort = CommandGuard::start(self.group.target(), input);
            self.guarding = escort.map_or(Guarding::Failed, Guarding::By);
        }
    }

    /// The command gets to read the end of its input.
    fn close_input(&mut self) {
        self.feed = None;
        if let Guarding::By(escort) = &mut self.guarding {
            escort.close_input();
        }
    }

    /// Ends it when its time is over; once it has ended by itself there is nothing to hurry but what it left.
    fn hurry(&mut self, now: Nanos, expires: Nanos, ended: bool) {
        match self.phase {
            Phase::Runs if now >= expires && !ended => {
                self.group.terminate();
                self.phase = Phase::Asked(now.saturating_add(self.setting.grace));
            }
            Phase::Asked(kill_at) if now >= kill_at => {
                self.group.signal(Signal::SIGKILL);
                self.phase = Phase::Killed;
            }
            _ => {}
        }
    }

    fn is_over(&self, drain: Drain, now: Nanos) -> bool {
        if matches!(self.phase, Phase::Asked(_)) && self.group.remains() {
            return false;
        }
        let silent = now >= drain.silent_at.min(drain.latest);
        self.streams.iter().all(|stream| stream.is_over() || silent && !self.is_owed(stream))
    }

    /// What was read is passed on, however slow its reader is, until the user has had enough.
    fn is_owed(&self, stream: &Stream) -> bool {
        stream.is_stuck() && self.user.is_none()
    }

    fn wake(&self, expires: Nanos, drain: Option<Drain>) -> Nanos {
        let hurry = match self.phase {
            Phase::Runs if drain.is_none() => expires,
            Phase::Asked(kill_at) if drain.is_none() => kill_at,
            Phase::Asked(_) => return clock::now() + GLANCE,
            Phase::Runs | Phase::Killed => NEVER,
        };
        let hurry = match self.guarding {
            Guarding::From(at) if drain.is_none() => hurry.min(at),
            _ => hurry,
        };
        let silence = drain.map_or(NEVER, |drain| drain.silent_at.min(drain.latest));
        let owes = self.streams.iter().any(|stream| self.is_owed(stream));
        if owes { hurry } else { hurry.min(silence) }
    }

    /// Waits for something to happen and lets everybody proceed. Says whether there was output.
    fn wait(&mut self, until: Nanos, signals: &Signals, found: &mut Found) -> io::Result<bool> {
        let mut fds = vec![PollFd::new(signals.fd(), PollFlags::POLLIN)];
        let mut places = [None; 4];
        let mut add = |place: usize, fd, flags| {
            places[place] = Some(fds.len());
            fds.push(PollFd::new(fd, flags));
        };
        for (place, stream) in self.streams.iter().enumerate() {
            if let Some((fd, flags)) = stream.wants() {
                add(place, fd, flags);
            }
        }
        if let Some(feed) = &self.feed {
            let (command, flags, source): (BorrowedFd<'_>, _, Option<BorrowedFd<'_>>) =
                feed.wants();
            add(2, command, flags);
            if let Some(source) = source {
                add(3, source, PollFlags::POLLIN);
            }
        }
        wait::ready(&mut fds, until)?;
        let came = |place: Option<usize>| place.and_then(|place: usize| fds[place].revents());
        let came = places.map(|place| came(place).unwrap_or(PollFlags::empty()));
        drop(fds);
        let mut output = false;
        for (stream, _) in self.streams.iter_mut().zip(came).filter(|(_, came)| !came.is_empty()) {
            stream.proceed(&self.setting.patterns, found);
            output = true;
        }
        if let Some(feed) = &mut self.feed
            && !(came[2] | came[3]).is_empty()
            && !feed.proceed(came[2], came[3])?
        {
            self.close_input();
        }
        Ok(output)
    }

    fn hear(&mut self, signals: &mut Signals) {
        for signal in signals.take() {
            match signal {
                Signal::SIGCHLD => self.follow_stop(),
                Signal::SIGTSTP => {
                    self.group.forward(signal);
                    wait::stop_ourselves();
                }
                Signal::SIGCONT if self.group.has_terminal() => self.group.hand_terminal(),
                signal => {
                    self.group.forward(signal);
                    self.user = self.user.or(ends(signal).then_some(signal));
                }
            }
        }
    }

    /// A command with the terminal that is stopped stops us too, so that the shell gets its terminal back.
    fn follow_stop(&self) {
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        let stopped = waitid(Id::Pid(self.group.leader), flags);
        if self.group.has_terminal() && matches!(stopped, Ok(WaitStatus::Stopped(..))) {
            self.group.take_terminal();
            wait::stop_ourselves();
            self.group.hand_terminal();
        }
    }
}
