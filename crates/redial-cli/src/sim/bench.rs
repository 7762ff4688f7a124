//! `redial sim bench`: every policy in many scenarios, under the same conditions.

use std::io::{self, Write};

use redial_core::Preset;
use redial_policy::Problem;
use redial_sim::Subject;
use redial_sim::bench::{Cell, Plan, bench, high_traffic_cells, outages, random_cells};
use redial_sim::peers::Peer;
use redial_sim::report::BenchReport;
use redial_sim::scenario::Set;
use redial_sim::simulate::Watch;

use super::args::{BenchArgs, Rankings};
use super::output::{Form, json};
use super::request::{quote, scenario, source, subject, warn_of_losses};
use super::table::table;
use crate::failed::Failed;
use crate::progress::with_progress;
use crate::terminal::Terminal;
use crate::text::{aligned, sanitise, widths};

/// Runs of each policy in each cell by default.
const RUNS: u32 = 3;

pub(super) fn run(args: &BenchArgs, out: &mut impl Write) -> Result<(), Failed> {
    let cells = cells(args)?;
    let subjects = subjects(args, &cells)?;
    let form = Form::of(&args.options)?;
    let plan = Plan {
        cells: &cells,
        outages: args.scenario.is_none(),
        subjects: &subjects,
        runs: args.options.runs.unwrap_or(RUNS),
        seed: args.options.seed,
        threads: args.options.threads(),
    };
    let run = |watch: &Watch| Ok((outages(&plan, watch)?, bench(&plan, watch)?));
    let mut completed = with_progress(plan.total_runs(), run)?;
    let done = std::mem::replace(&mut completed.done, Ok(Default::default()));
    let (outages, results) = done.map_err(|wrong: String| Failed::input("--policy", wrong))?;
    let command = command(args, plan.runs);
    let report =
        BenchReport { plan, results, outages, command: &command, wall_ms: completed.wall_ms };
    match form {
        Form::Json => json(&report, false, out)?,
        Form::Pictures(pictures) => pictures.put(|| report.svg(), || report.html(), out)?,
        Form::Text => text(&report, &args.rankings, Terminal::of_stdout(), out)?,
    }
    completed.end()
}

fn cells(args: &BenchArgs) -> Result<Vec<Cell>, Failed> {
    let wrong = |name: &str| {
        let name = name.to_owned();
        move |problem: Problem| Failed::input(&name, problem)
    };
    let sets = args.options.sets.iter().map(|set| Set::read(set)).collect::<Result<Vec<_>, _>>();
    let sets = sets.map_err(wrong("--set"))?;
    match &args.scenario {
        Some(name) => {
            let text = source(name)?;
            let scenario = scenario(name, &text, &sets)?;
            let sets = args.options.sets.iter().map(|set| format!("# --set {set}\n"));
            let text = sets.chain([text]).collect::<String>();
            Cell::of(name, "scenario", &scenario, &text)
                .map_err(|why| Failed::input(name, format!("has no cells: {why}")))
        }
        None if !sets.is_empty() => Err(Failed::input("--set", "needs the name of one scenario")),
        None if args.rankings.random.is_none() && args.rankings.high_traffic.is_none() => {
            Cell::built_in().map_err(wrong("--bench"))
        }
        None => {
            let count = |count: Option<u32>| count.unwrap_or(0);
            let random = random_cells(count(args.rankings.random), args.options.seed);
            let high = high_traffic_cells(count(args.rankings.high_traffic), args.options.seed);
            let mut cells = random.map_err(wrong("--random"))?;
            cells.extend(high.map_err(wrong("--high-traffic"))?);
            Ok(cells)
        }
    }
}

/// The given policies; else all presets and all peers.
fn subjects(args: &BenchArgs, cells: &[Cell]) -> Result<Vec<Subject>, Failed> {
    let Some(cell) = cells.first() else { return Ok(Vec::new()) };
    let presets = Preset::ALL.into_iter().map(|preset| preset.name().to_owned());
    let peers = Peer::all().map(|peer| format!("peer:{}", peer.name));
    let names: Vec<String> = if args.options.policies.is_empty() {
        presets.chain(peers).collect()
    } else {
        args.options.policies.clone()
    };
    warn_of_losses(&cell.scenario, &names)?;
    let no_retry = Subject::no_retry();
    let mut all = vec![no_retry];
    for name in names {
        if all.iter().all(|known| known.name != name) {
            all.push(subject(&cell.scenario, &name)?);
        }
    }
    Ok(all)
}

fn command(args: &BenchArgs, runs: u32) -> String {
    let mut words = vec!["redial sim".to_owned()];
    words.extend(args.scenario.as_deref().map(quote));
    words.push("--bench".to_owned());
    let mut flag = |flag: &str, value: &str| words.push(format!("--{flag} {}", quote(value)));
    args.options.sets.iter().for_each(|set| flag("set", set));
    args.options.policies.iter().for_each(|policy| flag("policy", policy));
    for (name, count) in
        [("random", args.rankings.random), ("high-traffic", args.rankings.high_traffic)]
    {
        count.iter().for_each(|count| flag(name, &count.to_string()));
    }
    flag("seed", &args.options.seed.to_string());
    flag("runs", &runs.to_string());
    words.join(" ")
}

/// The most lines without `--full` and `--cells`.
const LINES: usize = 10;

fn text(
    report: &BenchReport<'_>,
    rankings: &Rankings,
    terminal: Terminal,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut standings = report.standings();
    let all: Vec<String> =
        standings.iter().map(|it| terminal.wrap(&sanitise(&it.verdict))).collect();
    if rankings.full {
        all.iter().try_for_each(|verdict| writeln!(out, "{verdict}\n"))?;
        tables(report, terminal, out)?;
    } else {
        // Beside the verdicts there are the headings, the footer and the command.
        let used = all.iter().map(|it| it.lines().count() + 1).sum::<usize>() + 2;
        let rows = LINES.saturating_sub(used) / all.len().max(1);
        for (verdict, standing) in all.iter().zip(&mut standings) {
            writeln!(out, "{verdict}")?;
            standing.lines.truncate(1 + rows.max(1));
            print(&standing.lines, |column| column == 0, out)?;
        }
    }
    if rankings.cells {
        let (heads, rows) = report.cells();
        let last = heads.len() - 1;
        let lines: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
        print(&lines, |column| column < 2 || column == last, out)?;
        writeln!(out)?;
    }
    let (done, all) = (report.results.len(), report.plan.cells.len());
    let cells = if done == all { format!("{all} cells") } else { format!("{done} of {all} cells") };
    let more = if rankings.full { "" } else { "; --full has the tables" };
    let runs = match report.plan.runs {
        1 => "one run".to_owned(),
        runs => format!("{runs} runs"),
    };
    let footer = format!("{cells}, seed {}, {runs} of each policy{more}:", report.plan.seed);
    writeln!(out, "{footer}\n{}", terminal.dim(&sanitise(report.command)))
}

fn tables(report: &BenchReport<'_>, terminal: Terminal, out: &mut impl Write) -> io::Result<()> {
    for (title, each) in report.tables() {
        writeln!(out, "{}\n", terminal.bold(&title))?;
        table(&each, terminal, out)?;
        writeln!(out)?;
    }
    writeln!(out, "{}\n", terminal.wrap(BenchReport::reading()))?;
    if let Some((title, bars)) = report.bar_table() {
        writeln!(out, "{}\n", terminal.bold(&sanitise(&title)))?;
        table(&bars, terminal, out)?;
        writeln!(out, "\n{}\n", terminal.wrap(BenchReport::reading_bars()))?;
    }
    Ok(())
}

fn print(
    lines: &[Vec<String>],
    is_left: impl Fn(usize) -> bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let widths = widths(lines);
    lines.iter().try_for_each(|line| {
        writeln!(out, "{}", sanitise(aligned(line, &widths, "  ", &is_left).trim_end()))
    })
}
