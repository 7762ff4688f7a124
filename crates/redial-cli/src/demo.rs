//! `redial demo`: a storm that one can watch. Two servers on loopback, the naive loop against one and Redial
//! against the other; both servers blink at the same moment.

mod chart;
mod screen;
mod side;
mod summary;

use std::io::{self, IsTerminal as _, Write};
use std::pin::pin;
use std::time::Duration;

use redial_core::Nanos;
use redial_live::{Live, Load, Setting, Time, Window};
use tokio::runtime::Builder;
use tokio::signal::ctrl_c;
use tokio::time::timeout;

use crate::policy::Named;
use screen::{Look, Plain, Screen, View};
use side::Side;

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;
const FRAME: Duration = Duration::from_millis(100);

/// Watch a storm: real traffic on loopback, a backend that blinks, the naive loop and Redial beside each other
#[derive(clap::Args)]
#[command(after_help = "Examples:
  redial demo                          twenty seconds, with charts
  redial demo --policy my.toml         your own policy instead of the standard one
  redial demo --seconds 60             to see whether it ever ends
  redial demo --json > demo.json       only the figures, for a program

Ctrl-C ends it and shows the figures so far. NO_COLOR=1 leaves the colours out.")]
pub(crate) struct Args {
    /// How long it runs
    #[arg(long, value_name = "S", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
    /// Names the random numbers of callers and backends; the network has its own
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// What Redial runs: a preset or a policy file
    #[arg(long, value_name = "P", default_value = "standard", value_parser = Named::read)]
    policy: Named,
    /// Print JSON, when it is over
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<()> {
    let setting = setting(args);
    let sides = Side::both(&setting, &args.policy)?;
    let names = sides.each_ref().map(|side| side.name.clone());
    let lives = if args.json {
        watch(sides, &mut Unseen)?
    } else if io::stdout().is_terminal() {
        let look = if colours() { Look::Colours } else { Look::Plain };
        watch(sides, &mut Screen::new(out, &setting, look)?)?
    } else {
        watch(sides, &mut Plain::new(out, &setting)?)?
    };
    let results: Vec<(String, Live)> = names.into_iter().zip(lives).collect();
    if args.json {
        return writeln!(out, "{:#}", summary::describe(&setting, &results));
    }
    summary::table(out, &setting, &results)
}

/// A load of 0.8, and a second of nothing. The queue is longer than callers wait, so that a backend that falls
/// behind works for nobody: the storms that do not end begin there. Small enough for the thousand files that a
/// process may often open at most: each connection is two of them.
fn setting(args: &Args) -> Setting {
    let duration = args.seconds * SECOND;
    Setting {
        load: Load::Closed { callers: 300, think: Time::Exponential(740 * MS) },
        instances: 4,
        timeout: Some(150 * MS),
        servers: 4,
        service: Time::Constant(8 * MS),
        queue: 150,
        outage: Some(Window { start: duration * 3 / 10, duration: SECOND.min(duration / 4) }),
        brownout: None,
        duration,
        drain: 0,
        seed: args.seed,
    }
}

/// Shows it until it is over, or until Ctrl-C.
fn watch(mut sides: [Side; 2], view: &mut impl View) -> io::Result<[Live; 2]> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupted = pin!(ctrl_c());
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

/// The convention of no-color.org: any value but an empty one.
fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
