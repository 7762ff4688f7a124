use std::io::{self, Write};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use redial_core::decide::Safety;
use redial_core::{Nanos, Policy, nanos_or_never, parse_duration};
use redial_sim::explain::{Explanation, Question, Ruling, Script, Step, explain};
use redial_sim::peers::Peer;

use crate::policy;

/// Show what a policy does with the outcomes of some calls, and how long it waits
#[derive(clap::Args)]
#[command(after_help = "\
An outcome is a status of HTTP (503), a class (timeout, connect, reset, refused, throttled, overloaded,
server-error, transient, permanent, cancelled), a code of gRPC (UNAVAILABLE, grpc:14) or not-yet. A hint may
follow it: 429@retry-after=7 (seconds, or a duration), 503@slot=250ms, UNAVAILABLE@pushback=40ms. The calls
share one budget. A timeout takes all the time that the attempt has, anything else takes --latency.

Examples:
  redial explain --policy web                                        how long are the waits?
  redial explain --policy web --outcomes '503,timeout,200; 500,200'  what becomes of two calls?
  redial explain --policy web --outcomes 500 --safety unsafe         what if it may not be done twice?
  redial explain --policy peer:istio --outcomes 503                  what does another system do?
  redial explain --policy my.toml --outcomes 429@retry-after=7 --json")]
pub(crate) struct Args {
    /// A preset (`redial presets` lists them), `peer:` and a name (`redial presets --peers`), or the path of a
    /// policy file
    #[arg(long, value_parser = Subject::read)]
    policy: Subject,
    /// Outcomes with `,` between them and calls with `;` between them; the last one of a call repeats
    #[arg(long)]
    outcomes: Option<Script>,
    /// How many calls' waits to list
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// The same seed draws the same waits
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How long an attempt takes, such as 20ms
    #[arg(long, default_value = "0s", value_parser = latency)]
    latency: Nanos,
    /// What is known about doing the calls twice
    #[arg(long, default_value = "idempotent", value_parser = safeties())]
    safety: Safety,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is explained: a policy, and whose it is if it is a peer's.
#[derive(Clone)]
struct Subject {
    policy: Policy,
    peer: Option<&'static Peer>,
}

impl Subject {
    fn read(name: &str) -> Result<Self, String> {
        Ok(Self { policy: policy::load(name)?, peer: policy::peer(name)? })
    }

    /// What a call allows does not matter to a peer that never asks.
    fn safety(&self, safety: Safety) -> Safety {
        match self.peer {
            Some(peer) if !peer.checks_safety => Safety::ReadOnly,
            _ => safety,
        }
    }
}

const SAFETY: [(&str, Safety); 5] = [
    ("unsafe", Safety::Unsafe),
    ("idempotent", Safety::Idempotent),
    ("keyed", Safety::Keyed),
    ("conditional", Safety::Conditional),
    ("read-only", Safety::ReadOnly),
];

fn safeties() -> impl TypedValueParser<Value = Safety> {
    PossibleValuesParser::new(SAFETY.map(|(name, _)| name)).map(|name| {
        let known = SAFETY.iter().find(|(known, _)| *known == name);
        known.map_or(Safety::Unsafe, |(_, safety)| *safety)
    })
}

fn latency(text: &str) -> Result<Nanos, String> {
    const LONGEST: Nanos = 24 * 3600 * 1_000_000_000;
    match parse_duration(text) {
        Ok(latency) if latency <= LONGEST => Ok(latency),
        Ok(_) => Err("an attempt takes at most a day".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<()> {
    let question = Question {
        script: args.outcomes.clone().unwrap_or_default(),
        runs: args.runs,
        seed: args.seed,
        latency: args.latency,
        safety: args.policy.safety(args.safety),
    };
    let answer = explain(&args.policy.policy, &question);
    if args.json {
        return writeln!(out, "{}", serde_json::to_string_pretty(&answer)?);
    }
    if !answer.steps.is_empty() {
        steps(&answer.steps, out)?;
    }
    waits(&answer, out)?;
    runs(&answer, out)?;
    worst_case(&answer, out)?;
    args.policy.peer.map_or(Ok(()), |peer| whose(peer, out))
}

/// What stands for a peer must not be taken for it.
fn whose(peer: &Peer, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n{}: {}.", peer.name, peer.about)?;
    if let Some(differs) = peer.differs {
        writeln!(out, "Where this differs from it: {differs}.")?;
    }
    if !peer.checks_safety {
        writeln!(
            out,
            "It does not ask whether a call may be done twice, so --safety changes nothing."
        )?;
    }
    Ok(())
}

fn steps(steps: &[Step], out: &mut impl Write) -> io::Result<()> {
    let mut table = vec![
        ["call", "attempt", "outcome", "verdict", "reason", "delay", "budget", "elapsed"]
            .map(str::to_owned)
            .to_vec(),
    ];
    table.extend(steps.iter().map(|step| {
        vec![
            step.call.to_string(),
            step.attempt.to_string(),
            step.outcome.clone().unwrap_or_else(|| "not sent".to_owned()),
            step.ruling.name().to_owned(),
            step.ruling.reason().to_owned(),
            step.ruling.delay().map_or_else(|| "-".to_owned(), short),
            step.budget.map_or_else(|| "none".to_owned(), |balance| balance.to_string()),
            short(step.elapsed),
        ]
    }));
    print(&table, &[2, 3, 4], out)?;
    let mut said = Vec::new();
    for step in steps {
        if let Ruling::Stop(stop) = step.ruling
            && !said.contains(&stop)
        {
            said.push(stop);
        }
    }
    writeln!(out)?;
    said.iter().try_for_each(|stop| writeln!(out, "{}: {stop}.", stop.name()))?;
    writeln!(out, "The budget is how many retries it would still grant.\n")
}

fn waits(answer: &Explanation, out: &mut impl Write) -> io::Result<()> {
    let retries = answer.policy.attempts() - 1;
    if retries == 0 {
        return writeln!(out, "Nothing is repeated: there is one attempt.\n");
    }
    let mut table = vec![["retry", "ceiling", "mean", "p5", "p95"].map(str::to_owned).to_vec()];
    table.extend(answer.waits.iter().map(|wait| {
        let times = [wait.ceiling, wait.mean, wait.p5, wait.p95].map(short);
        [wait.retry.to_string()].into_iter().chain(times).collect()
    }));
    print(&table, &[], out)?;
    let cap = short(answer.cap.wait);
    match answer.cap.retry {
        Some(retry) => writeln!(out, "\nThe cap of {cap} is reached at retry {retry}.")?,
        None => writeln!(out, "\nThe cap of {cap} is not reached by then.")?,
    }
    match retries as usize - answer.waits.len() {
        0 => writeln!(out),
        more => writeln!(out, "{more} more retries are not shown.\n"),
    }
}

fn runs(answer: &Explanation, out: &mut impl Write) -> io::Result<()> {
    if answer.waits.is_empty() {
        return Ok(());
    }
    let header = (1..=answer.runs.len()).map(|run| format!("run {run}"));
    let mut table = vec![["retry".to_owned()].into_iter().chain(header).collect::<Vec<_>>()];
    table.extend(answer.waits.iter().zip(0..).map(|(wait, row): (_, usize)| {
        let waits = answer.runs.iter().map(|run| short(run[row]));
        [wait.retry.to_string()].into_iter().chain(waits).collect()
    }));
    print(&table, &[], out)?;
    writeln!(out)
}

fn worst_case(answer: &Explanation, out: &mut impl Write) -> io::Result<()> {
    let worst = answer.worst_case;
    write!(out, "The worst case: {} attempts, ", worst.attempts)?;
    let (Some(_), Some(_)) = (worst.elapsed, worst.elapsed_with_hints) else {
        return writeln!(out, "and nothing bounds how long they take.");
    };
    let [plain, hinted] =
        [worst.elapsed, worst.elapsed_with_hints].map(|limit| short(nanos_or_never(limit)));
    writeln!(out, "over after {plain}; after {hinted} when the server asks for patience.")
}

/// Columns as wide as their widest cell, numbers to the right and the columns of `words` to the left.
fn print(table: &[Vec<String>], words: &[usize], out: &mut impl Write) -> io::Result<()> {
    let columns = table.first().map_or(0, Vec::len);
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in table {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if words.contains(&column) {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            }
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  "))?;
    }
    Ok(())
}

/// Three digits are enough for a person: `83.5ms`, `1.6s`.
fn short(nanos: Nanos) -> String {
    let ms = nanos as f64 / 1e6;
    let (number, unit) = if ms < 1000.0 { (ms, "ms") } else { (ms / 1e3, "s") };
    let places = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
    let text = format!("{number:.places$}");
    let text = if places > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}
