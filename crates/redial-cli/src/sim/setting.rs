//! A scenario described by four numbers that everyone knows of their service, instead of by a file.

use redial_core::{Rate, Span};
use redial_sim::report::{count, ratio};

use crate::failed::Failed;

const HEADING: &str = "Without a scenario";

const LONGEST_LATENCY: Span = Span::from_secs(3600);
const LONGEST_OUTAGE: Span = Span::from_secs(24 * 3600);
/// As many calls as a scenario may begin in a second.
const MOST_CALLS: f64 = 1e9;
const MOST_LOAD: f64 = 100.0;
/// As many as a scenario may have.
const MOST_SERVERS: f64 = 1e9;
const MOST_QUEUED: f64 = 1e8;
/// The timeout of attempts, in latencies.
const TIMEOUT: u64 = 10;
/// How many requests can wait for each server: for twice as long as an attempt waits.
const QUEUED: f64 = 20.0;

/// The calls, the backend and its outage.
#[derive(clap::Args)]
pub(super) struct Setting {
    /// Calls of all clients together, such as 2000/s
    #[arg(long, value_name = "RATE", help_heading = HEADING, value_parser = rate, requires = "latency", conflicts_with = "scenario")]
    rate: Option<Rate>,
    /// How long the backend takes for a request on average
    #[arg(long, value_name = "TIME", help_heading = HEADING, value_parser = latency, requires = "rate")]
    latency: Option<Span>,
    /// Share of the backend's capacity that the calls use; the number of servers follows from it
    #[arg(long, value_name = "SHARE", help_heading = HEADING, value_parser = load, requires = "rate", default_value_if("rate", clap::builder::ArgPredicate::IsPresent, "0.7"))]
    load: Option<f64>,
    /// How long the backend is down
    #[arg(long, value_name = "TIME", help_heading = HEADING, value_parser = outage, requires = "rate", default_value_if("rate", clap::builder::ArgPredicate::IsPresent, "2s"))]
    outage: Option<Span>,
}

fn rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|error: redial_core::Unreadable| error.to_string())?;
    match a_second(rate) {
        0.0 => Err("must be above zero".to_owned()),
        ..=MOST_CALLS => Ok(rate),
        _ => Err(format!("must be at most {MOST_CALLS:.0}/s")),
    }
}

fn latency(text: &str) -> Result<Span, String> {
    time(text, LONGEST_LATENCY)
}

fn outage(text: &str) -> Result<Span, String> {
    time(text, LONGEST_OUTAGE)
}

fn time(text: &str, most: Span) -> Result<Span, String> {
    match text.parse::<Span>() {
        Ok(Span::ZERO) => Err("must be above zero".to_owned()),
        Ok(time) if time <= most => Ok(time),
        Ok(_) => Err(format!("must be at most {most}")),
        Err(error) => Err(error.to_string()),
    }
}

fn load(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if load > 0.0 && load <= MOST_LOAD => Ok(load),
        _ => Err(format!("must be a number above 0 and at most {MOST_LOAD}, such as 0.7")),
    }
}

fn a_second(rate: Rate) -> f64 {
    f64::from(rate.count) * 1e9 / rate.per.as_nanos_f64()
}

/// All four of them.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    rate: Rate,
    latency: Span,
    load: f64,
    outage: Span,
}

impl Setting {
    /// `None` without `--rate`.
    pub(super) fn numbers(&self) -> Option<Numbers> {
        let Self { rate, latency, load, outage } = *self;
        Some(Numbers { rate: rate?, latency: latency?, load: load?, outage: outage? })
    }
}

impl Numbers {
    /// The flags that give the same.
    pub(super) fn flags(self) -> String {
        let Self { rate, latency, load, outage } = self;
        format!("--rate {rate} --latency {latency} --load {load} --outage {outage}")
    }

    /// The scenario's file.
    pub(super) fn text(self) -> Result<String, Failed> {
        let Self { rate, latency, load, outage } = self;
        let calls = a_second(rate);
        let servers = (calls * latency.as_secs_f64() / load).ceil();
        if servers > MOST_SERVERS {
            let (needed, most) = (count(servers), count(MOST_SERVERS));
            let why = format!("need {needed} servers, and the simulator supports at most {most}");
            return Err(Failed::input("--rate, --latency and --load", why));
        }
        let real = calls * latency.as_secs_f64() / servers;
        let (start, timeout) = ((latency * 10).max(Span::from_secs(10)), latency * TIMEOUT);
        let end = start + outage + (outage * 2 + Span::from_secs(20)).max(latency * 20);
        let (window, queue) =
            ((end / 10_000).max(Span::from_millis(100)), (servers * QUEUED).min(MOST_QUEUED));
        let policy = |name: &str, rest: &str| {
            format!(
                "\n[policy.{name}]\nattempt_timeout = \"{timeout}\"\nbudget = \"none\"\nhedge = \"none\"\nstall = \"none\"\npark = \"none\"\n{rest}"
            )
        };
        let policies = [
            policy("one-attempt", "attempts = 1\n"),
            policy(
                "loop",
                "attempts = 4\nbackoff = { base = \"100ms\", cap = \"100ms\", growth = \"constant\", jitter = \"none\" }\n",
            ),
            policy("backoff", "attempts = 4\nbackoff = { base = \"100ms\", cap = \"5s\" }\n"),
        ];
        Ok(format!(
            r#"title = "{rate} to {servers} servers that take {latency}, down for {outage}"
teaches = """
The number of servers is computed: the rate times the latency, divided by the load, and rounded up. With {servers} servers the
load is {load}. Service times are exponential, each server has a queue for {QUEUED} requests, and an outage is answered with
503. The first three policies end an attempt after {TIMEOUT} latencies; loop and backoff make four attempts without a budget.
`--show` prints the scenario, to be edited.
"""
duration = "{end}"
window = "{window}"
policies = ["one-attempt", "loop", "backoff", "standard"]

[clients]
instances = 20
arrivals = {{ poisson = {{ rate = {calls:?} }} }}

[backend]
servers = {servers}
service = {{ exponential = "{latency}" }}
queue = {queue}

[outage]
start = "{start}"
duration = "{outage}"
{policies}"#,
            load = ratio(real),
            policies = policies.concat(),
        ))
    }
}
