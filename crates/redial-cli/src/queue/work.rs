mod ends;
mod exec;
mod limits;
mod log;
mod serve;

use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redial_core::{Policy, Preset};
use redial_queue::WorkEvent;
use redial_queue::delivery::{Deliverer, Secrets};
use redial_queue::durable::{Job, Report, Until, Worker, WorkerError, standard};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use super::place::Place;
use super::time;
use crate::failed::Failed;
use crate::guard::Guard;
use crate::policy;
use crate::run::{Codes, Form, Rules, is_ignored};
use crate::stderr::GOODBYE;
use ends::Ends;
use exec::Exec;
use log::Log;

const POLICY: &str = "How often and when";
const EXEC: &str = "Commands";
const HTTP: &str = "Deliveries";
const METRICS: &str = "Metrics";

/// Work on the jobs of a queue: run a command for each, or send it
///
/// An attempt is charged when a job is claimed, so a job that kills its worker runs out of attempts too. Attempts and
/// backoff are in the store: another worker goes on where this one was killed.
#[derive(clap::Args)]
#[command(after_help = "\
With --exec each job is `sh -c CMD` in a process group of its own, with the payload on stdin and in its environment
REDIAL_QUEUE, REDIAL_JOB_ID, REDIAL_ATTEMPT (1 is the first), REDIAL_IDEMPOTENCY_KEY (the same for all attempts),
REDIAL_KEY if the job has one, and its headers as REDIAL_HEADER_ and the name in capitals, with _ for all but letters
and digits. Exit code 0 is done and 75 is to be tried again. Others are judged as by `redial run`: they are tried again,
except 126 and 127: the command cannot be executed, so the worker stops and its jobs are not charged, unless
--retry-on-exit or --stop-on-exit names the code. The last line on stderr is kept as the cause. A command
whose time is over, or whose lease is lost, gets SIGTERM with all that it has started, and SIGKILL after the grace. If the
worker itself is killed, a guard process kills its commands at once, with all that they have started.

Stderr may be stalled, as by Ctrl-S: work goes on, and lines that do not fit into a queue of 256 KiB are dropped and counted.

Without --exec the worker sends the jobs of `redial queue send`, each with its Idempotency-Key. Other jobs go back into the
queue and are not charged.
A receiver (scheme, host and port) has a quarter of the workers at most, so that one that never answers does not hold up
the others, and by default a breaker: while it is open the jobs of that receiver wait, and nothing is charged.

The first SIGTERM or Ctrl-C lets what runs come to its end and claims nothing more; the second one stops at once.

Exit codes: 0 when it has finished or was asked to stop, 1 if the store has failed or no job can be done, 2 for wrong usage, 130 or
143 when it was stopped at once.

Examples:
  redial queue work --store jobs.db --exec './resize.sh' --workers 4
  redial queue work --store jobs.db --exec 'mail -s \"$REDIAL_HEADER_SUBJECT\" \"$REDIAL_KEY\"' --until nothing-due
  redial queue work --store jobs.db --policies retry.toml      send deliveries, with policies that jobs can name
  REDIAL_STORE=postgres://me:secret@db/app redial queue work --workers 64 --metrics 127.0.0.1:9464")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// How many jobs at once; without this, 8 commands or 32 deliveries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// How long a job stays with a worker that is not heard of
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = lease)]
    lease: Duration,
    /// How many jobs are claimed in advance; without this, as many as --workers for deliveries, and none for commands
    #[arg(long, value_name = "N")]
    prefetch: Option<u16>,
    /// When to stop
    #[arg(long, value_enum, default_value_t = End::Stopped)]
    until: End,
    /// How long what runs may go on after SIGTERM or Ctrl-C; without this, as long as its policy gives an attempt
    #[arg(long, value_name = "TIME", value_parser = time::duration)]
    drain: Option<Duration>,
    /// What is told on stderr; when very much happens, only a part
    #[arg(long, value_enum, default_value_t = Form::Text)]
    log: Form,

    /// The policy of jobs that name none: a preset, or the path of a policy file, with #NAME if it has several; without
    /// this, 16 attempts of 30 s, with waits from 5 s to 1 h, and for deliveries a breaker
    #[arg(long, help_heading = POLICY, value_name = "POLICY", value_parser = policy::Named::read)]
    policy: Option<policy::Named>,
    /// A file of policies that jobs can name, besides the presets; may be repeated
    #[arg(long, help_heading = POLICY, value_name = "FILE", value_parser = policy::all)]
    policies: Vec<Policies>,

    /// Run this for each job
    #[arg(long, help_heading = EXEC, value_name = "CMD")]
    exec: Option<String>,
    /// Try again only after these exit codes and 75, such as 1-3
    #[arg(long, help_heading = EXEC, value_name = "CODES", value_parser = Codes::read, requires = "exec")]
    retry_on_exit: Option<Codes>,
    /// Never try again after these exit codes
    #[arg(long, help_heading = EXEC, value_name = "CODES", value_parser = Codes::read, requires = "exec")]
    stop_on_exit: Option<Codes>,
    /// From SIGTERM to SIGKILL
    #[arg(long, help_heading = EXEC, value_name = "TIME", default_value = "5s", value_parser = time::duration)]
    grace: Duration,

    /// Deliver only to public addresses, for services whose users choose the URLs of webhooks
    #[arg(long, help_heading = HTTP, conflicts_with = "exec")]
    only_public: bool,
    /// How many deliveries to one receiver at once; without this, a quarter of --workers
    #[arg(long, help_heading = HTTP, value_name = "N", conflicts_with = "exec", value_parser = clap::value_parser!(u16).range(1..))]
    per_destination: Option<u16>,
    /// Sign deliveries as Standard Webhooks do. Each line of the file has the URL of a receiver and its secrets, several
    /// while they are changed: https://hooks.example/orders whsec_…
    #[arg(long, help_heading = HTTP, value_name = "FILE", conflicts_with = "exec")]
    secret_file: Option<String>,

    #[command(flatten)]
    serve: serve::Serve,
}

type Policies = Vec<(String, Policy)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum End {
    /// When it is told to
    Stopped,
    /// When nothing is due; retries that wait are left to the next worker
    NothingDue,
    /// When nothing waits any more
    Empty,
}

fn lease(text: &str) -> Result<Duration, String> {
    match time::duration(text)? {
        lease if lease < Duration::from_millis(100) => {
            Err("a lease has at least 100ms: heartbeats have to come in between".to_owned())
        }
        lease => Ok(lease),
    }
}

pub(super) async fn run(args: &Args, _: &mut impl Write) -> Result<(), Failed> {
    let usual = if args.exec.is_some() { standard } else { redial_queue::delivery::standard };
    let policy = args.policy.as_ref().map_or_else(usual, |named| named.policy.clone());
    args.exec.as_deref().map_or(Ok(()), check_syntax)?;
    let log = Arc::new(Log::new(args.log));
    let deliverer = match &args.exec {
        Some(_) => None,
        None => Some(deliverer(args, &policy, &log)?),
    };
    let signals = Signals::listen()?;
    let done = work(args, policy, deliverer, signals, &log).await;
    let (done, wait) = match done {
        // The second signal: stop at once.
        Err(Failed::Said(code)) => (Err(Failed::Said(code)), Duration::from_millis(100)),
        done => (done, GOODBYE),
    };
    log.stderr().flush(wait);
    done.map_err(Failed::said)
}

async fn work(
    args: &Args,
    policy: Policy,
    deliverer: Option<Deliverer>,
    mut signals: Signals,
    log: &Arc<Log>,
) -> Result<(), Failed> {
    let files = limits::raise();
    let guard = args.exec.as_ref().and_then(|_| guard(log));
    let ends = Arc::new(Ends::new(args.grace, guard));
    let listening = args.serve.listen().await?;
    let mut worker = tokio::select! {
        worker = worker(args, policy, log) => worker?,
        // A store that does not answer must not keep us.
        code = signals.next() => return Err(Failed::Said(code)),
    };
    let mut served = None;
    if let Some(listening) = listening {
        let (observed, server) = listening.serve(worker, log)?;
        (worker, served) = (observed, Some(server));
    }
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let stopped = async move { stopped.notified().await };
    let report = match (&args.exec, deliverer) {
        (Some(command), _) => {
            let rules = Rules {
                retry_on_exit: args.retry_on_exit.clone(),
                stop_on_exit: args.stop_on_exit.clone(),
                lists_output: false,
            };
            let command = files.map_or_else(|| command.clone(), |before| before.around(command));
            let exec = Exec::new(&command, rules, Arc::clone(&ends), Arc::clone(log.stderr()));
            attend(worker.run(exec, stopped), signals, &stop, log, &ends).await?
        }
        (None, Some(deliverer)) => {
            attend(worker.run(deliverer, stopped), signals, &stop, log, &ends).await?
        }
        (None, None) => Report::default(),
    };
    drop(served);
    log.ended(&report);
    Ok(())
}

/// What `sh` cannot read would fail for every job.
fn check_syntax(command: &str) -> Result<(), Failed> {
    let checked = std::process::Command::new("sh").args(["-n", "-c", command]).output();
    match checked {
        Ok(output) if !output.status.success() => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Failed::input("--exec", said.lines().next().unwrap_or("not a command for sh")))
        }
        // A missing sh is reported when the first job is started.
        _ => Ok(()),
    }
}

fn guard(log: &Log) -> Option<Guard> {
    let guard = Guard::start();
    if let Err(error) = &guard {
        log.warn(&format!(
            "no guard process could be started: {error}; if this worker is killed, its commands go on"
        ));
    }
    guard.ok()
}

fn deliverer(args: &Args, policy: &Policy, log: &Log) -> Result<Deliverer, Failed> {
    let mut builder = Deliverer::builder(policy);
    if args.only_public {
        builder = builder.only_public();
    }
    if let Some(path) = &args.secret_file {
        let secrets = policy::read_file(path).map_err(|error| Failed::input(path, error))?;
        let secrets: Secrets = secrets.parse().map_err(|error| Failed::input(path, error))?;
        if secrets.are_shared() {
            log.warn("one secret signs for all receivers, so each can sign webhooks to the others: name the receiver \
                      before its secret, as in `https://hooks.example/orders whsec_…`");
        }
        builder = builder.sign(secrets);
    }
    builder.build().map_err(|error| Failed::Work(error.to_string()))
}

async fn worker(args: &Args, policy: Policy, log: &Arc<Log>) -> Result<Worker, Failed> {
    let presets = Preset::ALL.map(|preset| (preset.name().to_owned(), preset.into()));
    let log = Arc::clone(log);
    let mut worker = Worker::new(args.place.find_or_make().await?)
        .policy(policy)
        .policies(presets)
        .policies(args.policies.iter().flatten().cloned())
        .workers(args.workers.map_or(if args.exec.is_some() { 8 } else { 32 }, usize::from))
        .lease(args.lease)
        .until(match args.until {
            End::Stopped => Until::Stopped,
            End::NothingDue => Until::NothingDue,
            End::Empty => Until::Empty,
        })
        .watch(move |event: &WorkEvent<'_, Job>| log.event(event));
    if let Some(most) = args.per_destination {
        worker = worker.per_destination(most.into());
    }
    // A command that takes long, or its worker with it, would cost those behind it an attempt.
    let prefetch = args.prefetch.or(args.exec.is_some().then_some(0));
    if let Some(prefetch) = prefetch {
        worker = worker.prefetch(prefetch.into());
    }
    Ok(match args.drain {
        Some(drain) => worker.drain(drain),
        None => worker,
    })
}

/// Works until it is over. The first signal asks for that, the second one does not ask.
async fn attend(
    work: impl Future<Output = Result<Report, WorkerError>>,
    mut signals: Signals,
    stop: &Notify,
    log: &Log,
    ends: &Ends,
) -> Result<Report, Failed> {
    let whole = async {
        let report = work.await;
        ends.all().await;
        report
    };
    let (mut whole, mut asked) = (pin!(whole), false);
    loop {
        let code = tokio::select! {
            report = &mut whole => return Ok(report?),
            code = signals.next() => code,
        };
        if asked {
            ends.kill();
            log.warn("stopped at once; leased jobs become available when their leases expire");
            return Err(Failed::Said(code));
        }
        asked = true;
        stop.notify_one();
        log.warn("stopping: waiting for the running jobs; send the signal again to stop at once");
    }
}

struct Signals {
    /// `None` if it was ignored when we were started, as by a shell for what it runs in the background.
    interrupt: Option<Signal>,
    terminate: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let interrupt = match is_ignored(nix::sys::signal::Signal::SIGINT) {
            true => None,
            false => Some(signal(SignalKind::interrupt())?),
        };
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// The exit code that the next signal stands for.
    async fn next(&mut self) -> u8 {
        let interrupted = async {
            match &mut self.interrupt {
                Some(interrupt) => interrupt.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupted => 130,
            _ = self.terminate.recv() => 143,
        }
    }
}
