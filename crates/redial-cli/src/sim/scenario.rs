//! One scenario with several policies: a table, charts, and what the scenario teaches.

use std::io::{self, Write};

use redial_sim::report::{Case, Picture, Report};
use redial_sim::simulate::simulate_all;

use super::args::RunArgs;
use super::chart::{self, MARGIN};
use super::output::{Form, json};
use super::request::{Request, Source, common_engine};
use super::table::table;
use crate::failed::Failed;
use crate::progress::with_progress;
use crate::terminal::Terminal;
use crate::text::sanitise;

pub(super) fn run(args: &RunArgs, out: &mut impl Write) -> Result<(), Failed> {
    let source = match (&args.scenario, args.setting.numbers()) {
        (None, Some(numbers)) => Source::Setting(numbers),
        (name, _) => Source::Named(name.as_deref().unwrap_or_default()),
    };
    if args.show.show {
        return Ok(out.write_all(source.text()?.as_bytes())?);
    }
    let request = Request::read(source, &args.scenario_options, &args.options)?;
    let scenario = &request.scenario;
    let subjects = request.subjects(scenario)?;
    let methods = request.methods(subjects.iter().map(|subject| (scenario, subject)))?;
    let settings = request.settings(request.runs(&methods));
    let form = Form::of(&args.options)?;
    let all = f64::from(settings.runs) * subjects.len() as f64;
    let mut completed = with_progress(all, |watch| {
        let summaries = simulate_all(&methods, &settings, watch);
        let cases = subjects.iter().cloned().zip(summaries);
        cases.map(|(subject, summary)| Case { subject, summary }).collect::<Vec<_>>()
    })?;
    let command = request.command(settings.runs, None);
    let report = Report {
        question: request.question(&settings, common_engine(&methods), &command),
        scenario,
        cases: std::mem::take(&mut completed.done),
        series: args.show.series,
        wall_ms: completed.wall_ms,
    };
    match form {
        Form::Json => json(&report, args.show.series, out)?,
        Form::Pictures(pictures) => pictures.put(|| report.svg(), || report.html(), out)?,
        Form::Text => text(&report, args.options.runs.is_none(), Terminal::of_stdout(), out)?,
    }
    completed.end()
}

fn text(
    report: &Report<'_>,
    chosen: bool,
    terminal: Terminal,
    out: &mut impl Write,
) -> io::Result<()> {
    let scenario = report.scenario;
    writeln!(out, "{}\n", terminal.bold(&sanitise(&scenario.title)))?;
    if let Some(verdict) = report.verdict() {
        writeln!(out, "{}\n", terminal.wrap(&sanitise(&verdict)))?;
    }
    table(&report.table(), terminal, out)?;
    for note in report.notes() {
        writeln!(out, "\n{}", terminal.wrap(&sanitise(&note)))?;
    }
    charts(report, terminal, out)?;
    if let Some(claim) = &scenario.claim {
        writeln!(out, "\n{}", terminal.wrap(&format!("Claimed: {}", sanitise(claim))))?;
        for line in report.beside_claim() {
            writeln!(out, "  {}", sanitise(&line))?;
        }
    }
    for paragraph in scenario.teaches.split("\n\n").filter(|text| !text.trim().is_empty()) {
        writeln!(out, "\n{}", terminal.wrap(&sanitise(&paragraph.replace('\n', " "))))?;
    }
    footer(report, chosen, terminal, out)
}

fn footer(
    report: &Report<'_>,
    chosen: bool,
    terminal: Terminal,
    out: &mut impl Write,
) -> io::Result<()> {
    let question = &report.question;
    let runs = match question.runs {
        1 => "one run of each policy".to_owned(),
        runs => format!("means of {runs} runs of each policy ± standard errors"),
    };
    let why = if chosen { " (about five million calls, at most 20 runs)" } else { "" };
    let text = format!("Seed {}, {runs}{why}, {}:", question.seed, question.engine());
    writeln!(out, "\n{}\n{}", terminal.wrap(&text), terminal.dim(&sanitise(question.command)))?;
    let fewer = report.cases.iter().filter(|case| case.summary.runs < question.runs);
    for case in fewer {
        let (name, made) = (sanitise(&case.subject.name), case.summary.runs);
        writeln!(out, "Stopped: {made} of {} runs of {name}.", question.runs)?;
    }
    Ok(())
}

fn charts(report: &Report<'_>, terminal: Terminal, out: &mut impl Write) -> io::Result<()> {
    let ran: Vec<Case> =
        report.cases.iter().filter(|case| case.summary.runs > 0).cloned().collect();
    if ran.is_empty() {
        return Ok(());
    }
    let picture = Picture::of(report.scenario, &ran, terminal.width - MARGIN);
    writeln!(out)?;
    chart::legend(out, &picture, terminal)?;
    for (case, points) in ran.iter().zip(&picture.rows) {
        let name = sanitise(&case.subject.name);
        let sentence = report.sentence(case).unwrap_or_else(|| name.clone());
        let sentence = terminal.wrap(&sanitise(&sentence));
        let rest = sentence.strip_prefix(&name).map(|rest| terminal.bold(&name) + rest);
        writeln!(out, "\n{}", rest.unwrap_or(sentence))?;
        chart::chart(out, &picture, points, terminal)?;
    }
    Ok(())
}
