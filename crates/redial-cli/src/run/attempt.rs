//! One attempt: starts the command, pumps its input and output, and ends it if it times out.

use std::ffi::OsString;
use std::io;
use std::mem;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use redial_core::{Deadline, Span, Time};

use super::output::{Routes, Stream};
use super::scan::{Found, Patterns};
use super::stdin::{Feed, Stdin};
use super::wait;
use crate::clock;
use crate::process::{CommandGuard, Group, Grouping, SignalFlags, Status, is_ending, ready};

/// After the command has ended, its children may still print. A silence of this length counts as the end of the output.
const SILENCE: Span = Span::from_millis(500);
/// The longest time that output is read after the command has ended.
const LONGEST_DRAIN: Span = Span::from_secs(5);
/// How often a process group is polled: no signal reports that it has ended.
const POLL: Span = Span::from_millis(5);

/// How long a command runs before its guard is started. Starting a guard costs about as much as `redial run` itself, and
/// short commands have ended by then.
const GUARD_DELAY: Span = Span::from_millis(20);

/// What all attempts of a call have in common.
pub(super) struct Setting {
    pub(super) command: Vec<OsString>,
    pub(super) environment: Vec<(&'static str, String)>,
    pub(super) patterns: Patterns,
    pub(super) routes: Routes,
    pub(super) grouping: Grouping,
    pub(super) grace: Span,
}

/// The result of an attempt.
pub(super) struct End {
    pub(super) status: Status,
    pub(super) timed_out: bool,
    /// The signal with which the user ended it.
    pub(super) user: Option<Signal>,
    pub(super) found: Found,
    pub(super) streams: Vec<Stream>,
    pub(super) group: Group,
}

impl Setting {
    /// Runs the command to its end. The outer error is our own, the inner one is why the command could not be started.
    pub(super) fn attempt(
        &self,
        number: u32,
        expires: Deadline,
        stdin: &mut Stdin,
        signals: &mut SignalFlags,
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
        // Closes our copies of the pipes' ends, or we would never read an end.
        drop(command);
        let group = Group::new(Pid::from_raw(child.id() as i32), self.grouping);
        let feed = stdin.feed(child.stdin.take())?;
        let guarding = Guarding::From(clock::now() + GUARD_DELAY);
        let (phase, user) = (Phase::Runs, None);
        let mut watch = Watch { setting: self, child, group, streams, feed, guarding, phase, user };
        let end = watch.until_it_ends(expires, signals);
        if end.is_err() {
            // Nothing else would end it, and it must not take this for the end of its input.
            group.signal(Signal::SIGKILL);
        }
        drop(watch);
        group.take_terminal();
        end.map(Ok)
    }

    /// Ends leftover processes of a failed attempt, so that two attempts never run at once. Returns the signal that
    /// interrupted it.
    pub(super) fn end_leftovers(
        &self,
        group: Group,
        signals: &mut SignalFlags,
    ) -> io::Result<Option<Signal>> {
        if !group.remains() {
            return Ok(None);
        }
        group.terminate();
        let kill_at = clock::now() + self.grace;
        while group.remains() && clock::now() < kill_at {
            if let Some(signal) = wait::pause(clock::now() + POLL, signals)? {
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
    /// It was terminated, and is killed at this time.
    Terminated(Time),
    Killed,
}

/// The command has ended, but its output may not have.
#[derive(Clone, Copy)]
struct Drain {
    status: Status,
    silent_at: Time,
    latest: Time,
}

/// The guard, which ends the command if we are killed.
enum Guarding {
    /// It is started at this time.
    From(Time),
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
    fn until_it_ends(&mut self, expires: Deadline, signals: &mut SignalFlags) -> io::Result<End> {
        let mut found = Found::default();
        let mut drain: Option<Drain> = None;
        loop {
            let now = clock::now();
            self.enforce_timeout(now, expires, drain.is_some());
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
                drain.silent_at = clock::now() + SILENCE;
            }
            self.handle(signals);
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

    fn guard(&mut self, now: Time) {
        if matches!(self.guarding, Guarding::From(at) if now >= at) {
            let input = self.feed.as_ref().and_then(|feed| feed.input().ok());
            // Without a guard the command continues if we are killed, which is no reason to end it now.
            let guard = CommandGuard::start(self.group.target(), input);
            self.guarding = guard.map_or(Guarding::Failed, Guarding::By);
        }
    }

    /// Lets the command read the end of its input.
    fn close_input(&mut self) {
        self.feed = None;
        if let Guarding::By(guard) = &mut self.guarding {
            guard.close_input();
        }
    }

    /// Ends the command when it times out, and kills its group after the grace period.
    fn enforce_timeout(&mut self, now: Time, expires: Deadline, ended: bool) {
        match self.phase {
            Phase::Runs if expires.is_over(now) && !ended => {
                self.group.terminate();
                self.phase = Phase::Terminated(now + self.setting.grace);
            }
            Phase::Terminated(kill_at) if now >= kill_at => {
                self.group.signal(Signal::SIGKILL);
                self.phase = Phase::Killed;
            }
            _ => {}
        }
    }

    fn is_over(&self, drain: Drain, now: Time) -> bool {
        if matches!(self.phase, Phase::Terminated(_)) && self.group.remains() {
            return false;
        }
        let silent = now >= drain.silent_at.min(drain.latest);
        self.streams
            .iter()
            .all(|stream| stream.is_over() || silent && !self.has_undelivered(stream))
    }

    /// Whether output was read that its reader has not taken yet. Once the user has ended the command it is not waited for.
    fn has_undelivered(&self, stream: &Stream) -> bool {
        stream.is_stuck() && self.user.is_none()
    }

    fn wake(&self, expires: Deadline, drain: Option<Drain>) -> Deadline {
        let enforce_timeout = match self.phase {
            Phase::Runs if drain.is_none() => expires,
            Phase::Terminated(kill_at) if drain.is_none() => kill_at.into(),
            Phase::Terminated(_) => return (clock::now() + POLL).into(),
            Phase::Runs | Phase::Killed => Deadline::NONE,
        };
        let enforce_timeout = match self.guarding {
            Guarding::From(at) if drain.is_none() => enforce_timeout.min(at.into()),
            _ => enforce_timeout,
        };
        let silence = drain.map(|drain| drain.silent_at.min(drain.latest));
        let is_blocked = self.streams.iter().any(|stream| self.has_undelivered(stream));
        if is_blocked { enforce_timeout } else { enforce_timeout.min(silence.into()) }
    }

    /// Waits for an event and pumps the streams. Returns whether there was output.
    fn wait(
        &mut self,
        until: Deadline,
        signals: &SignalFlags,
        found: &mut Found,
    ) -> io::Result<bool> {
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
        ready(&mut fds, until)?;
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

    fn handle(&mut self, signals: &mut SignalFlags) {
        for signal in signals.take() {
            self.group.pass_on(signal);
            self.user = self.user.or(is_ending(signal).then_some(signal));
        }
    }
}
