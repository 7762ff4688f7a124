//! `redial sim sweep`: a scenario with one or two parameters varied, as a table or a map.

use std::io::{self, Write};

use redial_sim::measure::Metric;
use redial_sim::report::{Cells, SweepReport, count};
use redial_sim::simulate::Method;
use redial_sim::sweep::{Axis, Sweep};

use super::args::SweepArgs;
use super::contention;
use super::output::{Form, json};
use super::request::{Request, Source, common_engine};
use crate::failed::Failed;
use crate::progress::with_progress;
use crate::terminal::Terminal;
use crate::text::{aligned, sanitise, widths};

const DEFAULT_METRIC: Metric = Metric::Collapse;
/// From cream to red in the palette of 256 colours; black text is readable on all of them.
const HEAT: [u8; 6] = [230, 223, 216, 209, 203, 196];
const SHADES: [&str; 5] = [" ", "░", "▒", "▓", "█"];

pub(super) fn run(args: &SweepArgs, out: &mut impl Write) -> Result<(), Failed> {
    if args.scenario == contention::NAME {
        return Err(contention::unsupported("--sweep"));
    }
    let request =
        Request::read(Source::Named(&args.scenario), &args.scenario_options, &args.options)?;
    let shown = shown(args)?;
    let sweep = read(args, &request)?;
    let subjects = sweep.cells().iter().map(|scenario| request.subjects(scenario));
    let subjects = subjects.collect::<Result<Vec<_>, _>>()?;
    let each = sweep.cells().iter().zip(&subjects);
    let each =
        each.flat_map(|(cell, subjects)| subjects.iter().map(move |subject| (cell, subject)));
    let methods = request.methods(each)?;
    let work = methods.iter().map(Method::work).sum();
    let settings = request.settings(request.runs_of_cell(work));
    let calls = sweep.calls() * request.policies.len() as f64;
    let form = Form::of(&args.options)?;
    let (cells, policies, runs) = (sweep.cells().len(), request.policies.len(), settings.runs);
    writeln!(
        io::stderr(),
        "{} × {} × {}: about {} calls",
        counted(cells, "cell", "cells"),
        counted(policies, "policy", "policies"),
        counted(runs as usize, "run", "runs"),
        count(calls * f64::from(runs))
    )?;
    let all = f64::from(runs) * (cells * policies) as f64;
    let mut completed = with_progress(all, |watch| {
        let cells = request.policies.iter().zip(sweep.run(&methods, &settings, watch));
        cells
            .map(|(policy, summaries)| Cells { policy: policy.clone(), summaries })
            .collect::<Vec<_>>()
    })?;
    let command = request.command(runs, Some(args));
    let report = SweepReport {
        question: request.question(&settings, common_engine(&methods), &command),
        scenario: &request.scenario,
        sweep: &sweep,
        cells: std::mem::take(&mut completed.done),
        subjects: request.subjects(&request.scenario)?,
        metrics: shown,
        wall_ms: completed.wall_ms,
    };
    match form {
        Form::Json => json(&report, false, out)?,
        Form::Pictures(pictures) => pictures.put(|| report.svg(), || report.html(), out)?,
        Form::Text => text(&report, Terminal::of_stdout(), out)?,
    }
    completed.end()
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn shown(args: &SweepArgs) -> Result<Vec<Metric>, Failed> {
    let read = |name: &String| {
        Metric::from_name(name).ok_or_else(|| {
            let why = format!("unknown metric ({})", Metric::ALL.map(Metric::name).join(", "));
            Failed::input(format_args!("--metric {name}"), why)
        })
    };
    let metrics = args.metrics.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(if metrics.is_empty() { vec![DEFAULT_METRIC] } else { metrics })
}

fn read(args: &SweepArgs, request: &Request<'_>) -> Result<Sweep, Failed> {
    let axes = args.sweeps.iter().map(|text| Axis::read(text));
    let axes =
        axes.collect::<Result<Vec<_>, _>>().map_err(|wrong| Failed::input("--sweep", wrong))?;
    let mut axes = axes.into_iter();
    let (Some(x), y, None) = (axes.next(), axes.next(), axes.next()) else {
        return Err(Failed::input("--sweep", "at most two parameters can be varied"));
    };
    Sweep::read(&request.text, &request.sets, x, y)
        .map_err(|wrong| Failed::input(&args.scenario, wrong))
}

fn text(report: &SweepReport<'_>, terminal: Terminal, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}\n", terminal.bold(&sanitise(&report.scenario.title)))?;
    match &report.sweep.y {
        Some(y) => {
            for cells in &report.cells {
                for metric in &report.metrics {
                    map(report, (cells, *metric), y, terminal, out)?;
                }
            }
        }
        None => {
            if let [metric] = report.metrics[..] {
                let interval = if metric == DEFAULT_METRIC { " (95 %)" } else { "" };
                writeln!(out, "{metric}{interval}")?;
            }
            let (heads, rows) = report.rows();
            let lines: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
            let widths = widths(&lines);
            for line in &lines {
                let line = aligned(line, &widths, "  ", |column| column == 0);
                writeln!(out, "{}", sanitise(&line))?;
            }
            writeln!(out)?;
        }
    }
    let question = &report.question;
    let footer = format!(
        "Seed {}, {} of each cell, {}:",
        question.seed,
        counted(question.runs as usize, "run", "runs"),
        question.engine()
    );
    if let Some(note) = report.note() {
        writeln!(out, "{note}")?;
    }
    writeln!(out, "{footer}\n{}", terminal.dim(&sanitise(question.command)))
}

/// A map, with the first value of `y` at the bottom, as in a diagram.
fn map(
    report: &SweepReport<'_>,
    (cells, metric): (&Cells, Metric),
    y: &Axis,
    terminal: Terminal,
    out: &mut impl Write,
) -> io::Result<()> {
    let (x, range) = (&report.sweep.x, report.range(metric));
    let across = x.values.len();
    let texts: Vec<String> =
        (0..cells.summaries.len()).map(|at| report.text(cells, at, metric)).collect();
    let longest = texts.iter().chain(&x.values).map(|text| text.chars().count()).max();
    let width = longest.unwrap_or(1) + 1;
    let margin =
        y.values.iter().chain([&y.path]).map(|text| text.chars().count()).max().unwrap_or(0);
    writeln!(out, "{}: {metric}", terminal.bold(&sanitise(&cells.policy)))?;
    writeln!(out, "{}", terminal.dim(&y.path))?;
    for row in (0..y.values.len()).rev() {
        write!(out, "{:>margin$} ", y.values[row])?;
        for column in 0..across {
            let at = row * across + column;
            let value = cells.summaries[at].as_ref().and_then(|summary| summary.value(metric));
            let depth = value.map(|value| SweepReport::depth(metric, value.mean, range));
            write!(out, "{}", shaded(&texts[at], width, depth, terminal))?;
        }
        writeln!(out)?;
    }
    let values: String = x.values.iter().map(|value| format!("{value:>width$} ")).collect();
    writeln!(out, "{:>margin$} {}", "", values.trim_end())?;
    writeln!(out, "{:>margin$} {}", "", terminal.dim(&x.path))?;
    if let Some(interval) = report.interval(cells, metric) {
        writeln!(out, "{}", terminal.dim(&interval))?;
    }
    writeln!(out)
}

/// A number on a red background of matching intensity; without colours, beside a shaded block.
fn shaded(text: &str, width: usize, depth: Option<f64>, terminal: Terminal) -> String {
    let depth = depth.map(|depth| depth.clamp(0.0, 1.0));
    if !terminal.has_colours {
        let shade = depth.map_or(" ", |depth| SHADES[(depth * 4.0).round() as usize]);
        return format!("{text:>width$}{shade}");
    }
    let text = format!("{text:>width$} ");
    match depth {
        Some(depth) if depth > 0.0 => {
            let ground = HEAT[(depth * (HEAT.len() - 1) as f64).round() as usize];
            terminal.with(&format!("38;5;16;48;5;{ground}"), &text)
        }
        _ => text,
    }
}
