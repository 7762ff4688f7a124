//! How fast is the simulator, how much memory does a caller take, and is it correct?
//!
//! Speed is a ratio: to SimPy, which is commonly used for such simulations, and to a bare timing wheel, which is
//! what remains when nothing is simulated. Correctness is measured by published figures.

mod cases;
mod figures;
mod report;
mod simpy;
mod wheels;

pub(crate) use cases::run as run_case;
pub(crate) use report::Report;

use std::env;
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::callgrind::{self, Of};
use crate::table::Bar;
use cases::Measured;
use report::Line;

const CALLERS: u32 = 1_000_000;
const MANY_CALLERS: u32 = 25_000_000;
/// For the memory of everything except the callers.
const FEW_CALLERS: u32 = 1_000;
const PROCESSES: u32 = 100_000;
/// Callgrind takes fifty times as long.
const COUNTED: [u32; 2] = [50_000, 100_000];

/// Above this load, times by the clock are not reliable.
const BUSY: f64 = 1.5;

/// The number of events, and the time that they took.
#[derive(Clone, Copy, Debug)]
struct Speed {
    events: u64,
    wall_s: f64,
}

/// `sim` and its options.
pub(crate) fn command(args: &[&str]) -> Result<(), String> {
    match args {
        [] => measure(any_seed()).map(|report| print!("{report}")),
        ["--json"] => measure(any_seed()).map(|report| crate::print_json(&report)),
        ["--seed", seed, rest @ ..] if matches!(rest, [] | ["--json"]) => {
            let seed = seed.parse().map_err(|_| format!("{seed:?} is not a seed"))?;
            let report = measure(seed)?;
            match rest {
                [] => print!("{report}"),
                _ => crate::print_json(&report),
            }
            Ok(())
        }
        _ => Err(format!("`sim` takes --seed N and --json, not {:?}", args.join(" "))),
    }
}

fn measure(seed: u64) -> Result<Report, String> {
    let before = load();
    let mut lines = closed(seed)?;
    lines.extend(instructions()?);
    lines.extend(synchronised()?);
    lines.extend(cohorts(seed)?);
    for figures in [figures::contention, figures::budgets, figures::edge, figures::layers] {
        lines.extend(figures(seed)?);
    }
    Ok(Report { seed, load: [before, load()], lines })
}

/// The wheels process as many events as the callers.
fn closed(seed: u64) -> Result<Vec<Line>, String> {
    let simpy = best(|| simpy::speed(PROCESSES, cases::CLOSED_SECONDS / 2))?;
    let ours = best(|| cases::closed(CALLERS, seed))?;
    let bare = best(|| Ok(wheels::bare(CALLERS, ours.events)))?;
    let own = best(|| Ok(wheels::ours(CALLERS, ours.events)))?;
    let line = |what: &str, ours: Speed| Line::new(what, ours.millions(), "M events/s");
    let what = "exact, 1M callers, full policy";
    Ok(vec![
        line(what, ours)
            .beside("M, bare wheel of 1M", bare.millions())
            .ratio_bar(Bar::AtLeast(0.5)),
        line(what, ours).beside("M, SimPy at 100k", simpy.millions()).ratio_bar(Bar::AtLeast(40.0)),
        line(what, ours).beside("M, the aim", 10.0),
        line("our wheel, 1M events, nothing else", own)
            .beside("M, bare wheel of 1M", bare.millions()),
    ])
}

/// Figures that do not depend on other load. Only the number of callers differs between two runs, so that one-time
/// costs cancel.
fn instructions() -> Result<Vec<Line>, String> {
    let counted = |case: &str| {
        let mut runs = Vec::new();
        for callers in COUNTED {
            let args = ["sim-case", case, &callers.to_string()];
            let (instructions, printed) = callgrind::counted(&args, Of::Everything)?;
            runs.push((instructions as f64, measured(&printed)?.events as f64));
        }
        Ok::<_, String>((runs[1].0 - runs[0].0) / (runs[1].1 - runs[0].1))
    };
    let (ours, bare) = (counted("1m")?, counted("bare")?);
    let what = "exact, 100k callers, full policy";
    Ok(vec![Line::new(what, ours, "instructions/event").beside("bare wheel of 100k", bare)])
}

fn synchronised() -> Result<Vec<Line>, String> {
    let runs = [(); 3].map(|()| child("25m", MANY_CALLERS));
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let few = child("25m", FEW_CALLERS)?;
    let wall_s = runs.iter().map(|run| run.wall_s).fold(f64::INFINITY, f64::min);
    let callers = runs[0].peak_bytes.saturating_sub(few.peak_bytes) as f64;
    let each = callers / f64::from(MANY_CALLERS - FEW_CALLERS);
    let what = "exact, 25M callers at once";
    Ok(vec![
        Line::new(what, wall_s, "s").beside("s, prototype", 24.0).bar(Bar::AtMost(15.0)),
        Line::new(what, runs[0].events as f64 / wall_s / 1e6, "M events/s"),
        Line::new(what, each, "bytes/caller").bar(Bar::AtMost(32.0)),
    ])
}

fn cohorts(seed: u64) -> Result<Vec<Line>, String> {
    let ours = best(|| cases::cohorts(seed))?;
    let what = "cohort, 60 s of 100M calls/s";
    let line = Line::new(what, ours.wall_s, "s").beside("s, prototype", 0.27);
    Ok(vec![line.bar(Bar::AtMost(0.5))])
}

impl Speed {
    /// Millions of events a second.
    fn millions(self) -> f64 {
        self.events as f64 / self.wall_s / 1e6
    }
}

/// The fastest of three runs: disturbances only slow a run down.
fn best(mut run: impl FnMut() -> Result<Speed, String>) -> Result<Speed, String> {
    let mut best = run()?;
    for _ in 0..2 {
        let next = run()?;
        if next.millions() > best.millions() {
            best = next;
        }
    }
    Ok(best)
}

/// Runs a case in its own process, whose memory is that of the case.
fn child(case: &str, callers: u32) -> Result<Measured, String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(this);
    let output = command.args(["sim-case", case, &callers.to_string()]).output();
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{case} failed:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    measured(&String::from_utf8_lossy(&output.stdout))
}

fn measured(printed: &str) -> Result<Measured, String> {
    serde_json::from_str(printed).map_err(|error| format!("a case printed {printed:?}: {error}"))
}

fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    redial_core::draw(now.as_nanos() as u64, 1) >> 32
}

/// How many processes were runnable in the last minute; 0 where the kernel does not report it.
fn load() -> f64 {
    let loadavg = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loadavg.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}
