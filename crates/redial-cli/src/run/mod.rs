//! `redial run -- CMD`: the engine around any command.
//!
//! A shell loop retries immediately, for ever, and in step with all other loops. Here the engine decides, as in a service:
//! what may be repeated ([`judge`]), when, and whether the budget that all commands of a user share allows it
//! ([`budget`]). Everything waits in one place and on one thread, so that signals are handled at once and starting is
//! cheap.

mod args;
mod attempt;
mod budget;
mod judge;
mod known;
mod log;
mod output;
mod scan;
mod spool;
mod stdin;
mod wait;

pub(crate) use args::Args;

use std::env;
use std::io;
use std::process::ExitCode;

use nix::sys::signal::Signal;
use redial::Key;
use redial_core::decide::{Class, Outcome, Safety};
use redial_core::{Call, Context, Deadline, Permit, Policy, Request, Stop, Time, Verdict, draw};

use crate::clock;
use crate::failed::Failed;
use crate::process::{
    ExitRules, Grouping, OURS, SignalFlags, Status, die_of_interrupt, not_started,
};
use attempt::{End, Setting};
use budget::{Account, LockWait};
use known::Known;
use log::Log;
use output::Routes;
use scan::Patterns;
use stdin::Stdin;
use wait::Interrupted;

pub(crate) fn run(args: &Args) -> ExitCode {
    match Run::prepare(args) {
        Ok(run) => match run.call_until_over() {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                Failed::from(error).report_in_time();
                ExitCode::from(OURS)
            }
        },
        Err(failed) => match failed {
            Failed::Input(_) => failed.report(),
            _ => {
                failed.report_in_time();
                ExitCode::from(OURS)
            }
        },
    }
}

/// One call.
struct Run {
    policy: Policy,
    rules: ExitRules,
    known: Option<Known>,
    setting: Setting,
    stdin: Stdin,
    signals: SignalFlags,
    account: Account,
    log: Log,
    call: Call,
    seed: u64,
    outer: OuterRun,
    /// The exit codes of the attempts that were followed by another one.
    repeated: Vec<u8>,
}

/// The `redial run` that runs this one, if any: the number of its current attempt, and its attempts.
#[derive(Clone, Copy, Debug)]
struct OuterRun {
    attempt: u32,
    attempts: u32,
}

impl OuterRun {
    fn find() -> Self {
        let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
        let (attempt, attempts) = (number("REDIAL_ATTEMPT"), number("REDIAL_ATTEMPTS"));
        Self { attempt: attempt.unwrap_or(1), attempts: attempts.unwrap_or(1) }
    }
}

/// The result of an attempt, and the exit code if it is the last one.
struct Tried {
    outcome: Outcome,
    why: String,
    code: u8,
    /// `None` if it could not be started.
    end: Option<End>,
}

impl Run {
    fn prepare(args: &Args) -> Result<Self, Failed> {
        let policy = args.policy().map_err(Failed::Input)?;
        let key = Key::fresh();
        let seed = draw(Key::fresh().as_u128() as u64, 0);
        let account = Account::of(args, &policy, seed)?;
        let patterns = Patterns {
            retry: args.retry_on_output.clone(),
            stop: args.stop_on_output.clone(),
            hint: args.hint.clone(),
        };
        let rules = ExitRules {
            retry_on_exit: args.retry_on_exit.clone(),
            stop_on_exit: args.stop_on_exit.clone(),
            lists_output: !patterns.retry.is_empty(),
        };
        let environment = vec![
            ("REDIAL_ATTEMPTS", policy.attempts().to_string()),
            ("REDIAL_IDEMPOTENCY_KEY", key.to_string()),
        ];
        let setting = Setting {
            command: args.command.clone(),
            environment,
            routes: Routes::find(args.output, &patterns),
            patterns,
            grouping: Grouping::find(),
            grace: args.grace,
        };
        let started = clock::now();
        Ok(Self {
            call: Call::new(&policy, account.now(), Deadline::NONE),
            rules,
            known: args.command.first().and_then(|command| Known::of(command)),
            setting,
            stdin: Stdin::open(args.stdin, args.stdin_limit)?,
            signals: SignalFlags::listen()?,
            account,
            log: Log::new(args.log, started),
            policy,
            seed,
            outer: OuterRun::find(),
            repeated: Vec::new(),
        })
    }

    /// Makes attempts until the call ends. Returns the exit code.
    fn call_until_over(mut self) -> io::Result<u8> {
        let mut failed: Option<Tried> = None;
        loop {
            let permit = match self.admit() {
                Ok(permit) => permit,
                Err(stop) => return self.give_up(stop, failed),
            };
            if let Some(signal) = wait::ending_signal(&mut self.signals) {
                return self.interrupted(signal, permit.number - 1);
            }
            let number = permit.number;
            let tried = self.attempt(&permit)?;
            let broken = tried.end.iter().flat_map(|end| &end.streams).any(|s| s.broken.is_some());
            let bar = if broken || self.setting.routes.reader_is_gone() {
                Some(Stop::Cancelled)
            } else if !self.stdin.is_repeatable() {
                Some(Stop::Body)
            } else {
                (self.policy.refuses_nested() && self.outer.attempt > 1).then_some(Stop::Nested)
            };
            let (verdict, now) = self.settle(permit, &tried.outcome, bar);
            match verdict {
                Verdict::Done => {
                    self.log.succeeded(number, &self.repeated);
                    return self.deliver(tried);
                }
                Verdict::Wait(until) => {
                    self.warn_of_nesting(number);
                    self.log.waits(number, &tried.why, until - now);
                    if let Some(signal) = self.wait(self.account.to_local(until), &tried)? {
                        return self.interrupted(signal, number);
                    }
                    self.repeated.push(tried.code);
                    failed = Some(tried);
                }
                Verdict::Stop(stop) => {
                    // A signal also ends the wait for the budget.
                    if stop == Stop::Budget
                        && let Some(signal) = wait::ending_signal(&mut self.signals)
                    {
                        return self.interrupted(signal, number);
                    }
                    return self.give_up(stop, Some(tried));
                }
                Verdict::InFlight => unreachable!("there is one attempt at a time"),
            }
        }
    }

    fn admit(&mut self) -> Result<Permit, Stop> {
        let (policy, call) = (&self.policy, &mut self.call);
        let admitted = self.account.step(LockWait::Short, &mut self.signals, |guards, now| {
            call.admit(&context(policy, guards, None), now)
        });
        self.log_warnings();
        admitted
    }

    /// The verdict on an attempt, and its time.
    fn settle(&mut self, permit: Permit, outcome: &Outcome, off: Option<Stop>) -> (Verdict, Time) {
        let (policy, call, seed) = (&self.policy, &mut self.call, self.seed);
        let repeats = matches!(outcome, Outcome::Failure(failure)
            if !matches!(failure.class, Class::Permanent | Class::Cancelled));
        let can_retry = repeats && off.is_none() && permit.number < policy.attempts();
        let wait = if can_retry { LockWait::Long } else { LockWait::Short };
        let settled = self.account.step(wait, &mut self.signals, |guards, now| {
            (call.settle(&context(policy, guards, off), permit, outcome, now, || seed), now)
        });
        self.log_warnings();
        settled
    }

    fn attempt(&mut self, permit: &Permit) -> io::Result<Tried> {
        let number = permit.number;
        let left = permit.expires.left(permit.started).span();
        let started = self.account.to_local(permit.started);
        let expires = permit.expires.time().map(|at| self.account.to_local(at)).into();
        self.log.attempt(number, left);
        let end = self.setting.attempt(number, expires, &mut self.stdin, &mut self.signals)?;
        self.log.ended(number, clock::now() - started, end.as_ref());
        Ok(match end {
            Ok(end) => {
                let (outcome, code) =
                    (judge::outcome(&self.rules, self.known, &end), judge::exit_code(&end));
                Tried { outcome, why: why(&end, self.known), code, end: Some(end) }
            }
            Err(error) => {
                let (failure, code) = not_started(&error);
                let command = self.setting.command[0].to_string_lossy();
                let why = format!("cannot start {command}: {error}");
                Tried { outcome: failure.into(), why, code, end: None }
            }
        })
    }

    /// Ends leftover processes of the attempt, and waits. Returns the signal that interrupted it.
    fn wait(&mut self, until: Time, tried: &Tried) -> io::Result<Option<Signal>> {
        if let Some(end) = &tried.end
            && let Some(signal) = self.setting.end_leftovers(end.group, &mut self.signals)?
        {
            return Ok(Some(signal));
        }
        match wait::pause(until, &mut self.signals)? {
            None => self.account.confirm(&mut self.signals),
            signal => Ok(signal),
        }
    }

    /// A signal arrived between attempts. A retry that was charged is not made.
    fn interrupted(mut self, signal: Signal, attempts: u32) -> io::Result<u8> {
        let (policy, call) = (&self.policy, &mut self.call);
        if !call.is_over() {
            self.account.step(LockWait::Short, &mut self.signals, |guards, now| {
                call.cancel(&context(policy, guards, None), now);
            });
        }
        let code = Status::Signal(signal as u8).code();
        let (repeated, why) = (&self.repeated, signal.as_str());
        self.log.stopped(attempts, repeated, why, Stop::Cancelled, None, code);
        Ok(code)
    }

    fn give_up(mut self, stop: Stop, failed: Option<Tried>) -> io::Result<u8> {
        let Some(tried) = failed else {
            self.log.warn(&format!("no attempt made: {stop}"));
            return Ok(OURS);
        };
        if tried.end.is_none() && self.call.attempts() == 1 {
            self.log.warn(&tried.why);
        }
        if stop == Stop::Budget {
            self.account.refused();
            self.log_warnings();
        }
        let about = match stop {
            Stop::Budget => {
                self.account.place().map(|place| format!("shared in {place}; see --budget"))
            }
            Stop::Body => Some("stdin was read and is not buffered; see --stdin-limit".to_owned()),
            Stop::Permanent => self.permanent(&tried),
            _ => None,
        };
        let (attempts, repeated) = (self.call.attempts(), &self.repeated);
        self.log.stopped(attempts, repeated, &tried.why, stop, about.as_deref(), tried.code);
        let status = tried.end.as_ref().map(|end| end.status);
        let code = self.deliver(tried);
        let interrupt = Status::Signal(Signal::SIGINT as u8);
        if self.setting.grouping == Grouping::Foreground && status == Some(interrupt) {
            die_of_interrupt();
        }
        code
    }

    /// Why a failure is not repeated although no flag says so.
    fn permanent(&self, tried: &Tried) -> Option<String> {
        let is_known = self.rules.are_default() && !self.rules.name(tried.code);
        let known = self.known.filter(|_| is_known)?;
        let found = &tried.end.as_ref()?.found;
        let is_known = !found.stop && known.is_permanent(tried.code, found.status);
        is_known.then(|| format!("of {}; --retry-on-exit {} repeats it", known.name, tried.code))
    }

    /// Passes on what the last attempt printed, and returns the exit code.
    fn deliver(&mut self, tried: Tried) -> io::Result<u8> {
        let code = tried.code;
        let user = tried.end.as_ref().and_then(|end| end.user);
        for mut stream in tried.end.into_iter().flat_map(|end| end.streams) {
            let passed = match stream.broken.take() {
                Some(error) => Err(Interrupted::Failed(error)),
                None => stream.deliver(&mut self.signals, user),
            };
            match passed {
                Ok(()) => {}
                Err(Interrupted::By(signal)) => return Ok(Status::Signal(signal as u8).code()),
                // The reader has closed the pipe. The command itself would have received this signal.
                Err(Interrupted::Failed(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(Status::Signal(Signal::SIGPIPE as u8).code());
                }
                Err(Interrupted::Failed(error)) => return Err(error),
            }
        }
        Ok(code)
    }

    /// Four attempts of four attempts are sixteen, which neither command line shows.
    fn warn_of_nesting(&mut self, number: u32) {
        let (OuterRun { attempt, attempts }, own) = (self.outer, self.policy.attempts());
        if number == 1 && attempts > 1 && !self.policy.refuses_nested() {
            let all = u64::from(attempts) * u64::from(own);
            self.log.warn(&format!(
                "nested in attempt {attempt} of {attempts} of another `redial run`, with up to {own} attempts of its own: \
                 {all} in all; refuse_nested in the policy leaves retries to the outer one"
            ));
        }
    }

    fn log_warnings(&mut self) {
        self.account.warnings().iter().for_each(|warning| self.log.warn(warning));
    }
}

fn context<'a>(
    policy: &'a Policy,
    guards: &'a redial_core::admit::Guards,
    off: Option<Stop>,
) -> Context<'a> {
    // The user states that the command is safe to repeat, and the command has an idempotency key.
    let request = Request { safety: Safety::Keyed, off, ..Request::default() };
    Context { policy, guards, observer: None, request }
}

/// Why the attempt failed, for people.
fn why(end: &End, known: Option<Known>) -> String {
    let ended = match end.status {
        _ if end.timed_out => "timed out".to_owned(),
        Status::Code(code) => match known.and_then(|it| it.status(code, end.found.status)) {
            Some(status) => format!("exit code {code} (HTTP {status})"),
            None => format!("exit code {code}"),
        },
        Status::Signal(signal) => match Signal::try_from(i32::from(signal)) {
            Ok(signal) => signal.as_str().to_owned(),
            Err(_) => format!("signal {signal}"),
        },
    };
    let printed = if end.found.stop {
        " and output that matches --stop-on-output"
    } else if end.found.retry {
        " and output that matches --retry-on-output"
    } else {
        ""
    };
    ended + printed
}
