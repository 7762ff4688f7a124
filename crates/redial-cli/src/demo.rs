//! `redial demo`: a storm that one can watch. Two servers on loopback, the naive loop against one and Redial
//! against the other; both servers blink at the same moment. What the simulator says of it is drawn over it.

mod prediction;
mod screen;
mod side;
mod summary;

use std::io::{self, IsTerminal as _, Write};
use std::pin::pin;
use std::time::Duration;

use nix::sys::signal::Signal;
use redial_core::{NEVER, Nanos, Policy, SECOND};
use redial_live::round_trip;
use redial_sim::scenario::Set;
use redial_sim::{Scenario, Subject};
use tokio::runtime::Builder;
use tokio::signal::ctrl_c;
use tokio::time::timeout;

use crate::failed::Failed;
use crate::policy::Named;
use crate::run::is_ignored;
use crate::terminal::has_colours;
use prediction::Prediction;
use screen::{Look, Plain, Screen, View};
use side::{Outcome, Side};

const FRAME: Duration = Duration::from_millis(100);
/// How long calls may take that have begun. The naive loop needs two and a half seconds for ten attempts.
const DRAIN: Nanos = 5 * SECOND;
const TEXT: &str = include_str!("demo/demo.toml");
const NAIVE: &str = "naive";

/// Watch a storm: real traffic on loopback, a backend that blinks, the naive loop and Redial beside each other
#[derive(clap::Args)]
#[command(
    after_help = "The setting is one in which a naive loop collapses: the backend is down for a second, and its queue is
longer than callers wait, so that once it has fallen behind it works for nobody. Not every setting is
like that. What the simulator predicts for it is drawn over what is measured.

Examples:
  redial demo                          twenty seconds, with charts
  redial demo --policy my.toml         your own policy instead of the standard one
  redial demo --policy peer:istio      what somebody else does by default
  redial demo --seconds 60             to see whether it ever ends
  redial demo --json > demo.json       only the figures, for a program

Ctrl-C ends it and shows the figures so far. NO_COLOR=1 leaves the colours out."
)]
pub(crate) struct Args {
    /// How long it runs
    #[arg(long, value_name = "S", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
    /// Names the random numbers of callers and backends; the network has its own
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// What Redial runs: a preset, `peer:NAME` or a policy file
    #[arg(long, value_name = "P", default_value = "standard", value_parser = Named::read)]
    policy: Named,
    /// Print JSON, when it is over
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let scenario = scenario(args)?;
    let round_trip = round_trip().map_err(io::Error::other)?;
    let predict = |subject: Subject| {
        let prediction = Prediction::of(&scenario, &subject, round_trip, args.seed);
        (subject, prediction)
    };
    let both = subjects(&scenario, &args.policy)?.map(predict);
    let sides = Side::both(&scenario, both, args.seed)?;
    let outcomes = if args.json {
        watch(sides, &mut Unseen)?
    } else if io::stdout().is_terminal() {
        let look = if has_colours(&io::stdout()) { Look::Colours } else { Look::Plain };
        watch(sides, &mut Screen::new(out, &scenario, look)?)?
    } else {
        watch(sides, &mut Plain::new(out, &scenario)?)?
    };
    if args.json {
        writeln!(out, "{:#}", summary::describe(&scenario, args.seed, &outcomes))?;
    } else {
        summary::table(out, &scenario, args.seed, &outcomes)?;
    }
    let stopped = outcomes.iter().any(|outcome| outcome.interrupted.is_some());
    if stopped { Err(Failed::Stopped) } else { Ok(()) }
}

/// The file, as long as asked for. The outage begins after three tenths of it.
fn scenario(args: &Args) -> io::Result<Scenario> {
    let ms = args.seconds * 1_000;
    let times =
        [("duration", ms), ("outage.start", ms * 3 / 10), ("outage.duration", 1_000.min(ms / 4))];
    let sets = times.map(|(path, ms)| Set::new(path, &format!("{ms}ms")));
    let sets: Vec<Set> = sets.into_iter().flatten().collect();
    Scenario::read(TEXT, &sets).map_err(io::Error::other)
}

/// The naive loop, and what it is compared with, whose callers wait no longer for an answer.
fn subjects(scenario: &Scenario, named: &Named) -> Result<[Subject; 2], Failed> {
    let naive = scenario.subject(NAIVE).map_err(io::Error::other)?;
    let input = |why: String| Failed::input(&named.name, why);
    let policy = patient(&named.policy, naive.policy.attempt_timeout()).map_err(input)?;
    let name = format!("redial {}", named.name);
    Ok([naive, Subject::new(name, policy).map_err(input)?])
}

/// A policy that waits at most this long for the answer to an attempt.
fn patient(policy: &Policy, most: Nanos) -> Result<Policy, String> {
    let most = most.min(policy.attempt_timeout()).min(policy.deadline());
    let draft = policy.edit().attempt_timeout(Duration::from_nanos(most));
    let draft = match policy.connect_timeout() {
        NEVER => draft,
        connect => draft.connect_timeout(Duration::from_nanos(connect.min(most))),
    };
    draft.build().map_err(|error| error.to_string())
}

/// Shows it until it is over, or until Ctrl-C.
fn watch(mut sides: [Side; 2], view: &mut impl View) -> io::Result<[Outcome; 2]> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // A shell starts what runs in the background with Ctrl-C ignored.
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
            sides.iter_mut().for_each(Side::look);
            view.show(&sides)?;
        }
        Ok(sides.map(Side::finish))
    })
}

/// For programs, which want the end only.
struct Unseen;

impl View for Unseen {
    fn show(&mut self, _: &[Side; 2]) -> io::Result<()> {
        Ok(())
    }
}
