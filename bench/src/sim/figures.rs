//! Published figures that a correct simulator reproduces.

use std::thread;

use redial_sim::contention::{BACKOFFS, Contention, backoff};
use redial_sim::measure::{Metric, Spread, Summary};
use redial_sim::simulate::{Choice, Settings, Watch, simulate};

use super::cases;
use super::report::Line;
use crate::table::Bar;

/// Writes and completion in ms, in the order of [`BACKOFFS`]: means of 100 repetitions of the article's own script.
const CONTENTION: [(u32, [(f64, f64); 5]); 3] = [
    (1, [(1.0, 40.0); 5]),
    (10, [(51.5, 384.0), (50.9, 3446.0), (42.1, 686.0), (39.4, 462.0), (37.6, 450.0)]),
    (
        100,
        [(2418.0, 2024.0), (1862.0, 63147.0), (812.0, 6630.0), (796.0, 4969.0), (1001.0, 4605.0)],
    ),
];
const PUBLISHED_RUNS: f64 = 100.0;
const RUNS: u32 = 400;

const WINDOW: &str = "{ window = { ratio = 0.1, floor = \"0/s\", bootstrap = 5 } }";
/// Retries stop while more than one in ten fails.
const BREAKER: &str = "{ throttling = { capacity = 10, ratio = 0.111 } }";

pub(super) fn contention(seed: u64) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (clients, row) in CONTENTION {
        for (name, (writes, completion_ms)) in BACKOFFS.into_iter().zip(row) {
            let backoff = backoff(name).ok_or_else(|| format!("there is no backoff {name}"))?;
            let contention = Contention { backoff, clients, runs: RUNS, seed };
            let ours = contention.run(threads()).map_err(|invalid| invalid.to_string())?;
            let line = |what: &str, unit, ours: Spread, theirs: f64| {
                Line::new(format!("§1 {name}, {clients} clients: {what}"), ours.mean, unit)
                    .beside("published", theirs)
                    .by("standard errors", distance(ours, theirs), Bar::AtMost(3.0))
            };
            lines.push(line("writes", "", ours.writes, writes));
            lines.push(line("time", "ms", ours.completion_ms, completion_ms));
        }
    }
    Ok(lines)
}

/// The distance of the means in standard errors, assuming equal variances.
fn distance(ours: Spread, theirs: f64) -> f64 {
    let difference = (ours.mean - theirs).abs();
    let combined = ours.standard_error.hypot(ours.sd / PUBLISHED_RUNS.sqrt());
    if difference == 0.0 { 0.0 } else { difference / combined }
}

pub(super) fn budgets(seed: u64) -> Result<Vec<Line>, String> {
    let table = [
        ("3 retries", "\"none\"", 0.05, 1.052, 1.0),
        ("3 retries", "\"none\"", 0.5, 1.873, 0.938),
        ("window budget", WINDOW, 0.05, 1.052, 0.9998),
        ("window budget", WINDOW, 0.5, 1.104, 0.552),
        ("breaker at 10%", BREAKER, 0.05, 1.05, 0.9989),
        ("breaker at 10%", BREAKER, 0.5, 1.0, 0.499),
    ];
    let mut lines = Vec::new();
    for (name, budget, errors, load, success) in table {
        let clients = "instances = 100\narrivals = { constant = { rate = 1000 } }";
        let rest = format!("[backend]\nerrors = {errors}");
        let summary = run("100s", clients, &rest, &policy(4, budget), 4, seed)?;
        for (what, metric, published) in
            [("load", Metric::Amplification, load), ("success", Metric::Success, success)]
        {
            lines.push(near(
                format!("§3 {name}, {errors} fail: {what}"),
                summary.mean(metric),
                published,
            ));
        }
    }
    for (instances, load) in [(10, 1.104), (100, 1.142), (1000, 1.462)] {
        let clients =
            format!("instances = {instances}\narrivals = {{ constant = {{ rate = 100 }} }}");
        let summary =
            run("100s", &clients, "[backend]\nerrors = 0.5", &policy(4, WINDOW), 8, seed)?;
        let what = format!("§3 what {instances} buckets leak: load");
        lines.push(near(what, summary.mean(Metric::Amplification), load));
    }
    Ok(lines)
}

/// A system that starts full. Most runs have to end on the published side of the edge. The time to recover is for
/// information: our backlog has no callers, so retries build up only with the first calls, and with four retries
/// that takes 12 s in which the queue drains.
pub(super) fn edge(seed: u64) -> Result<Vec<Line>, String> {
    let backend =
        "[backend]\nservers = 1\nservice = { exponential = \"100ms\" }\nqueue = 100\nbacklog = 100";
    let back = [(1, 4.5, 55.0), (1, 4.9, 140.0), (4, 1.5, 41.0), (4, 1.9, 146.0)];
    let table = back.into_iter().map(|(retries, rate, after)| (retries, rate, Some(after)));
    let mut lines = Vec::new();
    for (retries, rate, after) in table.chain([(1, 8.0, None), (4, 3.0, None)]) {
        let clients = format!("arrivals = {{ poisson = {{ rate = {rate} }} }}");
        let policy =
            policy(retries + 1, "\"none\"").replace("1ms", "1ns") + "attempt_timeout = \"3s\"\n";
        let summary = run("1500s", &clients, backend, &policy, 40, seed)?;
        let stuck = summary.collapse.value;
        let what = format!("§4 {retries} retries, {rate}/s: runs that stay down");
        let (side, bar) = match after {
            Some(_) => (0.0, Bar::AtMost(0.5)),
            None => (1.0, Bar::AtLeast(0.5)),
        };
        lines.push(Line::new(what, stuck, "").beside("published", side).bar(bar));
        if let Some(after) = after {
            let what = format!("§4 {retries} retries, {rate}/s: until they recover");
            let seconds = summary.mean(Metric::RecoverMs) / 1e3;
            lines.push(Line::new(what, seconds, "s").beside("published", after));
        }
    }
    Ok(lines)
}

pub(super) fn layers(seed: u64) -> Result<Vec<Line>, String> {
    let leaf = |(errors, published): (f64, f64)| {
        let rest = format!(
            "[backend]\ncalls = [\"b\"]\n[service.b]\ncalls = [\"c\"]\n[service.c]\nerrors = {errors}"
        );
        let clients = "arrivals = { constant = { rate = 1000 } }";
        let summary = run("20s", clients, &rest, &policy(4, "\"none\""), 4, seed)?;
        let what = format!("§5 leaf of three layers, {errors} fail: calls");
        Ok(near(what, summary.mean(Metric::Amplification), published))
    };
    [(1.0, 64.0), (0.5, 2.0)].into_iter().map(leaf).collect()
}

fn near(what: String, measured: f64, published: f64) -> Line {
    let off = (measured / published - 1.0).abs() * 100.0;
    Line::new(what, measured, "").beside("published", published).by("% off", off, Bar::AtMost(2.0))
}

/// A policy that makes this many attempts, 1 ms apart, limited only by the budget.
fn policy(attempts: u32, budget: &str) -> String {
    format!(
        "attempts = {attempts}\ndeadline = \"none\"\nbudget = {budget}\n\
         backoff = {{ growth = \"constant\", base = \"1ms\", cap = \"1ms\", jitter = \"none\" }}\n"
    )
}

fn run(
    duration: &str,
    clients: &str,
    rest: &str,
    policy: &str,
    runs: u32,
    seed: u64,
) -> Result<Summary, String> {
    let scenario = cases::read(&format!(
        "title = \"figure\"\nduration = \"{duration}\"\npolicies = [\"it\"]\n\
         [clients]\n{clients}\n[policy.it]\n{policy}\n{rest}\n"
    ))?;
    let subject = scenario.subject("it")?;
    let method = Choice::Exact.method(&scenario, &subject)?;
    Ok(simulate(&method, &Settings { runs, seed, threads: threads() }, &Watch::default()))
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
