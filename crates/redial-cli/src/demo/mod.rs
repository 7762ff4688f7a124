//! `redial demo`: a retry storm to watch. Two servers on loopback, one with callers that retry in a naive loop and one with
//! callers that use Redial, have an outage at the same time. The prediction of the simulator is drawn over the measured
//! traffic.

mod prediction;
mod screen;
mod side;
mod summary;

use std::io::{self, IsTerminal as _, Write};
use std::pin::pin;
use std::time::Duration;

use nix::sys::signal::Signal;
use redial_core::{Policy, Span, TimeLimit};
use redial_live::round_trip;
use redial_sim::scenario::Set;
use redial_sim::{Scenario, Subject};
use tokio::runtime::Builder;
use tokio::signal::ctrl_c;
use tokio::time::timeout;

use crate::failed::Failed;
use crate::policy::Named;
use crate::process::is_ignored;
use crate::terminal::Terminal;
use prediction::Prediction;
use screen::{Plain, Screen, Size, View};
use side::{Outcome, Side};

const FRAME: Duration = Duration::from_millis(100);
/// How long calls may continue after the end. The naive loop needs two and a half seconds for ten attempts.
const DRAIN: Span = Span::from_secs(5);
const NAIVE: &str = "naive";

/// Watch a retry storm: real traffic on loopback, a short outage, a naive retry loop beside Redial
#[derive(clap::Args)]
#[command(after_help = "\
This is a setting in which a naive loop collapses: the backend is down for a second, and its queue is \
longer than callers wait, so that once it has fallen behind, all of its responses come too late. Not \
every setting is like that. The simulator's prediction is drawn over the measured values.

Examples:
  # twenty seconds, with charts
  redial demo
  # your own policy instead of the preset standard
  redial presets web > my.toml
  redial demo --seconds 5 --policy my.toml
  # the default of another system
  redial demo --seconds 5 --policy peer:istio
  # the figures for a program
  redial demo --seconds 5 --json > demo.json

Ctrl-C ends it and shows the figures so far. NO_COLOR=1 disables colours.")]
pub(crate) struct Args {
    /// Duration in seconds
    #[arg(long, value_name = "S", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
    /// Seed of the random numbers of callers and backends
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The policy of the callers that use Redial: a preset, peer:NAME or a policy file
    #[arg(long, value_name = "P", default_value = "standard", value_parser = Named::read)]
    policy: Named,
    /// Print JSON at the end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let scenario = scenario(args)?;
    let round_trip = round_trip().map_err(io::Error::other)?;
    let predict = |subject: Subject| {
        let prediction = Prediction::of(&scenario, &subject, round_trip, args.seed);
        prediction.map(|prediction| (subject, prediction)).map_err(io::Error::other)
    };
    let [one, other] = subjects(&scenario, &args.policy)?;
    let both = [predict(one)?, predict(other)?];
    let terminal = Terminal::of_stdout();
    let size = Size::of(terminal);
    let sides = Side::both(&scenario, both, args.seed, size.samples())?;
    let outcomes = if args.json {
        watch(sides, &mut NoView)?
    } else if io::stdout().is_terminal() {
        watch(sides, &mut Screen::new(out, &scenario, terminal, size)?)?
    } else {
        watch(sides, &mut Plain::new(out, &scenario, terminal)?)?
    };
    if args.json {
        writeln!(out, "{:#}", summary::describe(&scenario, args.seed, &outcomes))?;
    } else {
        summary::print(out, &scenario, args.seed, &outcomes, terminal)?;
    }
    let stopped = outcomes.iter().any(|outcome| outcome.interrupted.is_some());
    if stopped { Err(Failed::Stopped) } else { Ok(()) }
}

/// The scenario of the demo, with the duration of the arguments. The outage begins after three tenths of it.
fn scenario(args: &Args) -> io::Result<Scenario> {
    let ms = args.seconds * 1_000;
    let times =
        [("duration", ms), ("outage.start", ms * 3 / 10), ("outage.duration", 1_000.min(ms / 4))];
    let sets = times.map(|(path, ms)| Set::new(path, &format!("{ms}ms")));
    let sets: Vec<Set> = sets.into_iter().flatten().collect();
    Scenario::read(redial_live::DEMO, &sets).map_err(io::Error::other)
}

/// The naive loop and the policy to compare it with, which waits no longer for a response.
fn subjects(scenario: &Scenario, named: &Named) -> Result<[Subject; 2], Failed> {
    let naive = scenario.subject(NAIVE).map_err(io::Error::other)?;
    let input = |why: String| Failed::input(&named.name, why);
    let policy =
        with_timeout(&named.policy, naive.policy.attempt_timeout_limit()).map_err(input)?;
    let name = format!("redial {}", named.name);
    Ok([naive, Subject::new(name, policy).map_err(input)?])
}

/// The policy with at most this attempt timeout.
fn with_timeout(policy: &Policy, most: TimeLimit) -> Result<Policy, String> {
    let most = most.min(policy.attempt_timeout_limit()).min(policy.deadline_limit());
    let Some(most) = most.duration() else { return Ok(policy.clone()) };
    let draft = policy.edit().attempt_timeout(most);
    let draft = match policy.connect_timeout() {
        None => draft,
        Some(connect) => draft.connect_timeout(connect.min(most)),
    };
    draft.build().map_err(|error| error.to_string())
}

/// Shows both sides until the end, or until Ctrl-C.
fn watch(mut sides: [Side; 2], view: &mut impl View) -> io::Result<[Outcome; 2]> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // A shell starts background jobs with SIGINT ignored.
        let is_ignored = is_ignored(Signal::SIGINT);
        let mut interrupted = pin!(async {
            match is_ignored {
                true => std::future::pending().await,
                false => ctrl_c().await,
            }
        });
        while sides.iter().any(|side| !side.is_over()) {
            if timeout(FRAME, interrupted.as_mut()).await.is_ok() {
                sides.iter_mut().for_each(Side::stop);
                break;
            }
            sides.iter_mut().for_each(Side::update);
            view.show(&sides)?;
        }
        Ok(sides.map(Side::finish))
    })
}

/// Shows nothing while it runs.
struct NoView;

impl View for NoView {
    fn show(&mut self, _: &[Side; 2]) -> io::Result<()> {
        Ok(())
    }
}
