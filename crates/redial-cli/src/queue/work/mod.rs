//! `redial queue work`: a worker process, its signals, and the handler of its jobs.

mod commands;
mod exec;
mod log;
mod output;
mod serve;

use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redial_core::{Policy, Preset, Span};
use redial_queue::WorkEvent;
use redial_queue::delivery::{Deliverer, Secrets};
use redial_queue::durable::{
    Job, Until, Worker, WorkerError, WorkerReport, check_policy, standard,
};
use tokio::sync::Notify;

use super::location::QueueArgs;
use crate::failed::Failed;
use crate::log::Form;
use crate::process::{ExitCodes, ExitRules, Guard, StopSignals, open_files};
use crate::stderr::LAST_FLUSH;
use crate::{duration, policy};
use commands::Commands;
use exec::Exec;
use log::Log;

const MIN_LEASE: Duration = Duration::from_millis(100);

const POLICY: &str = "Policy";
const EXEC: &str = "Commands";
const HTTP: &str = "Deliveries";
const METRICS: &str = "Metrics";

/// Process the jobs of a queue: run a command for each, or send it
///
/// An attempt is charged when a job is claimed, so a job that kills its worker uses up its attempts too. Attempts and
/// backoff are in the store: if a worker is killed, another one continues.
#[derive(clap::Args)]
#[command(after_help = "\
With --exec each job runs `sh -c CMD` in its own process group, with the payload on stdin. The environment has \
REDIAL_QUEUE, REDIAL_JOB_ID, REDIAL_ATTEMPT (1 is the first), REDIAL_IDEMPOTENCY_KEY (the same for all attempts), \
REDIAL_KEY if the job has a key, and each header as REDIAL_HEADER_ and its name in capitals, with _ for characters other \
than letters and digits. Exit code 0 means done, and 75 means retry. Other codes are retried as by `redial run`, except \
126 and 127: the command cannot be executed, so the worker stops and its jobs are not charged, unless --retry-on-exit or \
--stop-on-exit names the code. The last line on stderr is recorded as the cause. Commands run at \
the same time, so their stdout is passed on in whole lines; a last line without an end gets one. A command that times out, or whose lease \
is lost, gets SIGTERM with all of its children, and SIGKILL after the grace period. If the worker itself is killed, a \
guard process immediately kills its commands with all of their children.

If stderr stalls, as after Ctrl-S, the work continues. Lines that do not fit into a queue of 256 KiB are dropped and \
counted.

Without --exec the worker sends the jobs of `redial queue send`, each with its Idempotency-Key. Other jobs return to the \
queue and are not charged. A receiver (scheme, host and port) uses at most a quarter of the workers, so that one that \
never responds does not hold up the others, and has a circuit breaker by default: while it is open, the jobs of that \
receiver wait and are not charged.

The first SIGTERM or Ctrl-C stops claiming and lets running jobs finish; the second one stops immediately.

Exit codes: 0 finished or stopped by the first signal, 1 the store failed or no job can be processed, 2 wrong usage, 130 or \
143 stopped immediately.

Examples:
  export REDIAL_STORE=jobs.db
  redial queue add --header 'subject: Hi' --payload hello
  # a command for each job
  redial queue work --exec 'wc -c' --workers 4 --until nothing-due
  # with a header of the job
  redial queue work --exec 'echo \"$REDIAL_HEADER_SUBJECT\"' --until nothing-due
  # send deliveries, under policies that jobs name
  redial presets web > web.toml
  redial queue work --policies web.toml --workers 64 --until nothing-due")]
pub(crate) struct Args {
    #[command(flatten)]
    queue: QueueArgs,
    /// The most jobs that run concurrently [default: 8 commands or 32 deliveries]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// How long a job stays claimed by a worker that sends no heartbeats
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = lease)]
    lease: Duration,
    /// Number of jobs that are claimed in advance [default: --workers for deliveries, 0 for commands]
    #[arg(long, value_name = "N")]
    prefetch: Option<u16>,
    /// When to stop
    #[arg(long, value_enum, default_value_t = End::Stopped)]
    until: End,
    /// How long running jobs may continue after SIGTERM or Ctrl-C [default: the attempt timeout]
    #[arg(long, value_name = "TIME", value_parser = duration::read)]
    drain: Option<Duration>,
    /// Log on stderr; the rate of lines is limited
    #[arg(long, value_enum, default_value_t = Form::Text)]
    log: Form,

    /// The policy of jobs that name none: a preset, or the path of a policy file, with #NAME if it has several
    /// [default: 16 attempts of 30 s, with waits from 5 s to 1 h, and for deliveries a circuit breaker]
    #[arg(long, help_heading = POLICY, value_name = "POLICY", value_parser = policy::Named::read)]
    policy: Option<policy::Named>,
    /// A file of policies that jobs can name, in addition to the presets; may be repeated
    #[arg(long, help_heading = POLICY, value_name = "FILE", value_parser = policy::all)]
    policies: Vec<Policies>,

    /// Run this command for each job
    #[arg(long, help_heading = EXEC, value_name = "CMD")]
    exec: Option<String>,
    /// Retry only these exit codes and 75, such as 1-3
    #[arg(long, help_heading = EXEC, value_name = "CODES", value_parser = ExitCodes::read, requires = "exec")]
    retry_on_exit: Option<ExitCodes>,
    /// Never retry these exit codes
    #[arg(long, help_heading = EXEC, value_name = "CODES", value_parser = ExitCodes::read, requires = "exec")]
    stop_on_exit: Option<ExitCodes>,
    /// Time between SIGTERM and SIGKILL
    #[arg(long, help_heading = EXEC, value_name = "TIME", default_value = "5s", value_parser = duration::read)]
    grace: Duration,

    /// Deliver only to public addresses, for services whose users choose the URLs of webhooks
    #[arg(long, help_heading = HTTP, conflicts_with = "exec")]
    only_public: bool,
    /// The most concurrent deliveries to one receiver [default: a quarter of --workers]
    #[arg(long, help_heading = HTTP, value_name = "N", conflicts_with = "exec", value_parser = clap::value_parser!(u16).range(1..))]
    per_destination: Option<u16>,
    /// Sign deliveries as in Standard Webhooks. Each line of the file has the URL of a receiver and its secrets (several
    /// during a rotation): https://hooks.example/orders whsec_…
    #[arg(long, help_heading = HTTP, value_name = "FILE", conflicts_with = "exec")]
    secret_file: Option<String>,

    #[command(flatten)]
    serve: serve::Serve,
}

type Policies = Vec<(String, Policy)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum End {
    /// When a signal stops it
    Stopped,
    /// When no job is due; waiting retries are left to the next worker
    NothingDue,
    /// When the queue is empty
    Empty,
}

fn lease(text: &str) -> Result<Duration, String> {
    match duration::read(text).map_err(|error| error.to_string())? {
        lease if lease < MIN_LEASE => {
            let least = Span::from(MIN_LEASE);
            Err(format!("must be at least {least}, so that heartbeats can renew it"))
        }
        lease => Ok(lease),
    }
}

pub(super) async fn run(args: &Args, _: &mut impl Write) -> Result<(), Failed> {
    let default = if args.exec.is_some() { standard } else { redial_queue::delivery::standard };
    let policy = args.policy.as_ref().map_or_else(default, |named| named.policy.clone());
    check_policies(args)?;
    args.exec.as_deref().map_or(Ok(()), check_syntax)?;
    let log = Arc::new(Log::new(args.log));
    let deliverer = match &args.exec {
        Some(_) => None,
        None => Some(deliverer(args, &policy, &log)?),
    };
    let signals = StopSignals::listen()?;
    let done = work(args, policy, deliverer, signals, &log).await;
    let (done, wait) = match done {
        // The second signal: stop immediately.
        Err(Failed::Reported(code)) => (Err(Failed::Reported(code)), Duration::from_millis(100)),
        done => (done, LAST_FLUSH),
    };
    log.stderr().flush(wait);
    done.map_err(Failed::reported)
}

/// Before the store is opened, and with the names of the policies.
fn check_policies(args: &Args) -> Result<(), Failed> {
    let own = args.policy.iter().map(|named| (&named.name, &named.policy));
    let named = args.policies.iter().flatten().map(|(name, policy)| (name, policy));
    for (name, policy) in own.chain(named) {
        check_policy(policy).map_err(|invalid| {
            let help = "extend the policy with fleet = \"none\"";
            Failed::input(name, format_args!("{invalid}; {help}"))
        })?;
    }
    Ok(())
}

async fn work(
    args: &Args,
    policy: Policy,
    deliverer: Option<Deliverer>,
    mut signals: StopSignals,
    log: &Arc<Log>,
) -> Result<(), Failed> {
    let files = open_files::raise();
    let guard = args.exec.as_ref().and_then(|_| guard(log));
    let commands = Arc::new(Commands::new(args.grace, guard));
    let listening = args.serve.listen()?;
    let mut worker = tokio::select! {
        worker = worker(args, policy, log) => worker?,
        // A signal also ends the wait for a store that does not answer.
        code = signals.next() => return Err(Failed::Reported(code)),
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
            let rules = ExitRules {
                retry_on_exit: args.retry_on_exit.clone(),
                stop_on_exit: args.stop_on_exit.clone(),
                lists_output: false,
            };
            let command = files.map_or_else(|| command.clone(), |before| before.around(command));
            let exec = Exec::new(&command, rules, Arc::clone(&commands), Arc::clone(log.stderr()))?;
            until_stopped(worker.run(exec, stopped), signals, &stop, log, &commands).await?
        }
        (None, Some(deliverer)) => {
            until_stopped(worker.run(deliverer, stopped), signals, &stop, log, &commands).await?
        }
        (None, None) => WorkerReport::default(),
    };
    drop(served);
    log.ended(&report);
    Ok(())
}

/// A syntax error would fail every job.
fn check_syntax(command: &str) -> Result<(), Failed> {
    let checked = std::process::Command::new("sh").args(["-n", "-c", command]).output();
    match checked {
        Ok(output) if !output.status.success() => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(Failed::input("--exec", errors.lines().next().unwrap_or("not a command for sh")))
        }
        // A missing sh is reported when the first job is started.
        _ => Ok(()),
    }
}

fn guard(log: &Log) -> Option<Guard> {
    let guard = Guard::start();
    if let Err(error) = &guard {
        log.warn(&format!(
            "cannot start a guard process: {error}; if this worker is killed, its commands continue"
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
            log.warn("one secret signs for all receivers, so each of them can forge webhooks to the others: write the \
                      receiver before its secret, as in `https://hooks.example/orders whsec_…`");
        }
        builder = builder.sign(secrets);
    }
    builder.build().map_err(|error| Failed::Other(error.to_string()))
}

async fn worker(args: &Args, policy: Policy, log: &Arc<Log>) -> Result<Worker, Failed> {
    let presets = Preset::ALL.map(|preset| (preset.name().to_owned(), preset.into()));
    let log = Arc::clone(log);
    let mut worker = Worker::new(args.queue.find_or_make().await?)
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
    // Jobs that are claimed in advance lose an attempt if a long command or its worker is killed.
    let prefetch = args.prefetch.or(args.exec.is_some().then_some(0));
    if let Some(prefetch) = prefetch {
        worker = worker.prefetch(prefetch.into());
    }
    Ok(match args.drain {
        Some(drain) => worker.drain(drain),
        None => worker,
    })
}

/// Runs until the work has ended. The first signal requests that, the second one stops immediately.
async fn until_stopped(
    work: impl Future<Output = Result<WorkerReport, WorkerError>>,
    mut signals: StopSignals,
    stop: &Notify,
    log: &Log,
    commands: &Commands,
) -> Result<WorkerReport, Failed> {
    let whole = async {
        let report = work.await;
        commands.all().await;
        report
    };
    let (mut whole, mut is_stopping) = (pin!(whole), false);
    loop {
        let code = tokio::select! {
            report = &mut whole => return Ok(report?),
            code = signals.next() => code,
        };
        if is_stopping {
            commands.kill();
            log.warn("stopped immediately; leased jobs become available when their leases expire");
            return Err(Failed::Reported(code));
        }
        is_stopping = true;
        stop.notify_one();
        log.warn(
            "stopping: waiting for the running jobs; send the signal again to stop immediately",
        );
    }
}
