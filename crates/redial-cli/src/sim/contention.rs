//! Which backoff is best for writers of one row depends on their number, so all backoffs are compared for each number of
//! clients.

use std::io::{self, Write};

use redial_core::schedule::Backoff;
use redial_sim::contention::{BACKOFFS, Contention, ContentionSummary, Spread, backoff};
use redial_sim::simulate::Choice;
use serde_json::{Value, json};

use super::args::RunArgs;
use crate::failed::Failed;
use crate::foreign::Loaded;
use crate::progress::with_progress;

/// The name in the place of a scenario's: a model of its own, which has no scenario file.
pub(super) const NAME: &str = "contention";
pub(super) const TITLE: &str =
    "Many clients write one row; a write that lost a race is rejected and repeated";

/// The number of runs of each case by default.
const RUNS: u32 = 100;
/// With short waits the number of writes grows with the square of the clients.
const MOST_CLIENTS: u32 = 10_000;

struct Case<'a> {
    policy: &'a str,
    clients: u32,
    summary: ContentionSummary,
}

pub(super) fn run(args: &RunArgs, out: &mut impl Write) -> Result<(), Failed> {
    reject_unsupported(args)?;
    let policies = backoffs(args)?;
    let clients = clients(args)?;
    let runs = args.options.runs.unwrap_or(RUNS);
    let all = f64::from(runs) * (clients.len() * policies.len()) as f64;
    let completed = with_progress(all, |watch| {
        let each = clients.iter().flat_map(|clients| policies.iter().map(|it| (*clients, *it)));
        let mut cases = Vec::new();
        for (clients, (policy, backoff)) in each {
            if watch.is_stopped() {
                return Err(Failed::Stopped);
            }
            let setting = Contention { backoff, clients, runs, seed: args.options.seed };
            let summary = setting.run(args.options.threads()).map_err(io::Error::other)?;
            watch.advance(f64::from(runs));
            cases.push(Case { policy, clients, summary });
        }
        Ok(cases)
    })?;
    let (cases, wall_ms) = (completed.done?, completed.wall_ms);
    if args.options.json {
        return Ok(writeln!(out, "{:#}", describe(args.options.seed, runs, &cases, wall_ms))?);
    }
    let rows: Vec<_> = cases.chunks(policies.len()).collect();
    table(out, &rows)?;
    writeln!(
        out,
        "\nMeans of {runs} runs ± standard errors, seed {}. Only the waits of a policy matter here, because no client\n\
         gives up. ms is the time until the last client is done.\n",
        args.options.seed
    )?;
    Ok(conclusion(out, rows[rows.len() - 1])?)
}

/// The model has no backend, no time series and no file.
fn reject_unsupported(args: &RunArgs) -> Result<(), Failed> {
    let given = [
        ("--show", args.show.show),
        ("--set", !args.options.sets.is_empty()),
        (
            "--engine",
            matches!(
                args.scenario_options.engine,
                Choice::Cohort | Choice::Scale | Choice::Quick(_)
            ),
        ),
        ("--series", args.show.series),
        ("--svg", args.options.svg.is_some()),
        ("--html", args.options.html.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(unsupported(flag)),
        None => Ok(()),
    }
}

pub(super) fn unsupported(flag: &str) -> Failed {
    Failed::input(flag, "not supported by contention")
}

fn backoffs(args: &RunArgs) -> Result<Vec<(&str, Backoff)>, Failed> {
    if args.options.policies.is_empty() {
        return Ok(BACKOFFS.into_iter().filter_map(|name| Some((name, backoff(name)?))).collect());
    }
    let is_first = |(at, name): &(usize, &String)| !args.options.policies[..*at].contains(name);
    let named = args.options.policies.iter().enumerate().filter(is_first).map(|(_, name)| {
        let wrong = |why| Failed::input(format_args!("--policy {name}"), why);
        Ok((name.as_str(), *Loaded::read(name).map_err(wrong)?.named.policy.backoff()))
    });
    named.collect()
}

fn clients(args: &RunArgs) -> Result<Vec<u32>, Failed> {
    if args.scenario_options.clients.is_empty() {
        return Ok(vec![1, 10, 100]);
    }
    let within = |clients: &u64| match u32::try_from(*clients) {
        Ok(count @ ..=MOST_CLIENTS) => Ok(count),
        _ => Err(Failed::input("--clients", format!("{clients} is not in 1..={MOST_CLIENTS}"))),
    };
    args.scenario_options.clients.iter().map(within).collect()
}

fn describe(seed: u64, runs: u32, cases: &[Case<'_>], wall_ms: f64) -> Value {
    let results = cases.iter().map(|Case { policy, clients, summary }| {
        json!({
            "policy": policy,
            "clients": clients,
            "attempts": summary.writes.mean,
            "attempts_sd": summary.writes.sd,
            "completion_ms": summary.completion_ms.mean,
            "completion_ms_sd": summary.completion_ms.sd,
        })
    });
    json!({
        "scenario": "contention",
        "seed": seed,
        "runs": runs,
        "engine": "exact",
        "results": results.collect::<Vec<_>>(),
        "events": cases.iter().map(|case| case.summary.events).sum::<u64>(),
        "wall_ms": wall_ms,
    })
}

fn table(out: &mut impl Write, rows: &[&[Case<'_>]]) -> io::Result<()> {
    line(out, "clients", "", rows[0], |case| case.policy.to_owned())?;
    for row in rows {
        let clients = row[0].clients.to_string();
        line(out, &clients, "writes", row, |case| cell(case.summary.writes))?;
        line(out, "", "ms", row, |case| cell(case.summary.completion_ms))?;
    }
    Ok(())
}

fn line(
    out: &mut impl Write,
    clients: &str,
    what: &str,
    row: &[Case<'_>],
    text: impl Fn(&Case<'_>) -> String,
) -> io::Result<()> {
    write!(out, "{clients:>7}  {what:<6}")?;
    for case in row {
        // The name of a policy file can be longer than any number.
        let width = case.policy.chars().count().max(14);
        write!(out, "  {:>width$}", text(case))?;
    }
    writeln!(out)
}

fn cell(Spread { mean, standard_error, .. }: Spread) -> String {
    let places = if mean < 100.0 { 1 } else { 0 };
    format!("{mean:.places$} ± {standard_error:.places$}")
}

/// The best backoffs of a row.
fn conclusion(out: &mut impl Write, row: &[Case<'_>]) -> io::Result<()> {
    let least = |of: fn(&Case<'_>) -> f64| {
        row.iter().min_by(|a, b| of(a).total_cmp(&of(b))).unwrap_or(&row[0])
    };
    let (writes, time) = (
        |case: &Case<'_>| case.summary.writes.mean,
        |case: &Case<'_>| case.summary.completion_ms.mean,
    );
    let (frugal, quick) = (least(writes), least(time));
    let clients = row[0].clients;
    if row.iter().all(|case| writes(case) == f64::from(clients)) {
        writeln!(out, "No client lost a race or had to wait: the policy does not matter.")
    } else if frugal.policy == quick.policy {
        let best = quick.policy;
        writeln!(out, "With {clients} clients, {best} has the fewest writes and ends first.")
    } else {
        writeln!(
            out,
            "With {clients} clients, {} sends {:.2} times the writes of {} and takes {:.2} times as long: longer waits\n\
             mean fewer writes and more time. Clients that collide and then wait equally long collide again.",
            frugal.policy,
            writes(frugal) / writes(quick),
            quick.policy,
            time(frugal) / time(quick)
        )
    }
}
