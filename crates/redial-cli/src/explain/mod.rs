//! `redial explain`: the verdicts and waits of a policy, step by step.

mod rules;

use std::collections::HashSet;
use std::io::{self, Write};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use redial_core::decide::Safety;
use redial_core::fleet::Location;
use redial_core::{Policy, Span};
use redial_sim::explain::{Explanation, Question, Ruling, Script, Step, explain};
use redial_sim::peers::Peer;
use serde::Serialize;

use crate::foreign::{Foreign, Loaded};
use crate::policy::Named;
use crate::text::{aligned, sanitise, widths};
use crate::{duration, policy};

/// Show what a policy does with the outcomes of calls, and how long it waits
#[derive(clap::Args)]
#[command(after_help = "\
An outcome is an HTTP status (503), a class (timeout, connect, reset, refused, throttled, overloaded, \
server-error, transient, permanent, cancelled), a gRPC code (UNAVAILABLE, grpc:14) or not-yet. A hint may \
follow it: 429@retry-after=7 (seconds, or a duration), 503@slot=250ms, UNAVAILABLE@pushback=40ms. The calls \
share one budget. A timeout takes the whole attempt timeout, any other outcome takes --latency.

Examples:
  # the waits
  redial explain --policy web
  # two calls, step by step
  redial explain --policy web --outcomes '503,timeout,200; 500,200'
  # a call that must not be repeated
  redial explain --policy web --outcomes 500 --safety unsafe
  # the default of another system
  redial explain --policy peer:istio --outcomes 503
  # a policy file
  redial presets web > my.toml
  redial explain --policy my.toml --outcomes 429@retry-after=7 --json
  # the config of another system
  redial export my.toml --to istio -o mesh.yaml
  redial explain --policy mesh.yaml --outcomes 503")]
pub(crate) struct Args {
    /// A preset (see `redial presets`), peer:NAME (see `redial presets --peers`), or the path of a policy file of any system
    /// that `redial check` knows, with #NAME if it has several
    #[arg(long, value_parser = Subject::read)]
    policy: Subject,
    /// Outcomes separated by `,`, and calls separated by `;`; the last outcome of a call repeats
    #[arg(long)]
    outcomes: Option<Script>,
    /// Number of calls whose waits are listed
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Seed of the waits
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Duration of an attempt, such as 20ms
    #[arg(long, default_value = "0s", value_parser = latency)]
    latency: Span,
    /// Whether the calls are safe to repeat
    #[arg(long, default_value = "idempotent", value_parser = safeties())]
    safety: Safety,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The policy to explain, and the peer whose default it is.
#[derive(Clone)]
struct Subject {
    policy: Policy,
    location: Option<Location>,
    peer: Option<&'static Peer>,
    checks_safety: bool,
    foreign: Option<Foreign>,
}

impl Subject {
    fn read(name: &str) -> Result<Self, String> {
        let Loaded { named, checks_safety, foreign } = Loaded::read(name)?;
        let Named { policy, location, .. } = named;
        let peer = policy::peer(name)?;
        let checks_safety = peer.map_or(checks_safety, |peer| peer.checks_safety);
        Ok(Self { policy, location, peer, checks_safety, foreign })
    }

    /// A system that does not check safety repeats every call.
    fn safety(&self, safety: Safety) -> Safety {
        if self.checks_safety { safety } else { Safety::ReadOnly }
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

fn latency(text: &str) -> Result<Span, String> {
    const MAX_LATENCY: Span = Span::from_secs(24 * 3600);
    match text.parse::<Span>() {
        Ok(latency) if latency <= MAX_LATENCY => Ok(latency),
        Ok(_) => Err(format!("must be at most {MAX_LATENCY}")),
        Err(error) => Err(error.to_string()),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    answer: Explanation,
    /// The budget, the hedges and the stall, in sentences.
    rules: Vec<String>,
    /// The other system whose config it is.
    format: Option<&'static str>,
    /// What is not the same there.
    losses: Vec<Loss>,
}

/// A field of another system's config that the policy does not have as it is.
#[derive(Serialize)]
struct Loss {
    kind: &'static str,
    text: String,
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
    let rules = rules::describe(&args.policy.policy);
    if args.json {
        let format = args.policy.foreign.as_ref().map(|foreign| foreign.format.name());
        let losses = args.policy.foreign.iter().flat_map(Foreign::losses);
        let losses = losses.map(|(kind, text)| Loss { kind, text }).collect();
        let answer = Answer { answer, rules, format, losses };
        return writeln!(out, "{}", serde_json::to_string_pretty(&answer)?);
    }
    if !answer.steps.is_empty() {
        steps(&answer.steps, out)?;
    }
    waits(&answer, out)?;
    runs(&answer, out)?;
    worst_case(&answer, out)?;
    rules.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    fleet(&args.policy, out)?;
    if let Some(foreign) = &args.policy.foreign {
        origin(foreign, out)?;
    }
    args.policy.peer.map_or(Ok(()), |peer| describe(peer, out))?;
    if !args.policy.checks_safety {
        writeln!(
            out,
            "It does not check whether a call is safe to repeat, so --safety has no effect."
        )?;
    }
    Ok(())
}

/// The policy is a translation of the config, so what was lost is listed.
fn origin(foreign: &Foreign, out: &mut impl Write) -> io::Result<()> {
    let losses: Vec<_> = foreign.losses().collect();
    let end = if losses.is_empty() { ", without loss." } else { "; not the same:" };
    writeln!(out, "\nRead from a config of {}{end}", foreign.format.name())?;
    losses.iter().try_for_each(|(kind, text)| writeln!(out, "  {kind:12}  {}", sanitise(text)))
}

/// The policy is a model of the peer, so its differences are listed.
fn describe(peer: &Peer, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n{}: {}.", peer.name, peer.about)?;
    peer.differs.map_or(Ok(()), |differs| writeln!(out, "Differences from it: {differs}."))
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
            step.ruling.reason().into_owned(),
            step.ruling.delay().map_or_else(|| "-".to_owned(), duration::text),
            step.budget.map_or_else(|| "none".to_owned(), |balance| balance.to_string()),
            duration::text(step.elapsed),
        ]
    }));
    print(&table, out, |column| (2..=4).contains(&column))?;
    let mut reasons = Vec::new();
    for step in steps {
        if let Ruling::Stop(stop, parking) = step.ruling {
            let refused = parking.refused.map(|why| format!("{}: {why}.", why.name()));
            let lines = [format!("{}: {stop}.", stop.name())].into_iter().chain(refused);
            reasons.extend(lines);
        }
    }
    let mut written = HashSet::new();
    reasons.retain(|line| written.insert(line.clone()));
    writeln!(out)?;
    reasons.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "The budget column is the number of retries that it would still grant.\n")
}

fn waits(answer: &Explanation, out: &mut impl Write) -> io::Result<()> {
    let retries = answer.policy.attempts() - 1;
    if retries == 0 {
        return writeln!(out, "The policy has one attempt and no retries.\n");
    }
    let mut table = vec![["retry", "ceiling", "mean", "p5", "p95"].map(str::to_owned).to_vec()];
    table.extend(answer.waits.iter().map(|wait| {
        let times = [wait.ceiling, wait.mean, wait.p5, wait.p95].map(duration::text);
        [wait.retry.to_string()].into_iter().chain(times).collect()
    }));
    print(&table, out, |_| false)?;
    let cap = duration::text(answer.cap.wait);
    match answer.cap.retry {
        Some(retry) => writeln!(out, "\nThe cap of {cap} is reached at retry {retry}.")?,
        None => writeln!(out, "\nThe cap of {cap} is not reached.")?,
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
        let waits = answer.runs.iter().map(|run| duration::text(run[row]));
        [wait.retry.to_string()].into_iter().chain(waits).collect()
    }));
    print(&table, out, |_| false)?;
    writeln!(out)
}

fn worst_case(answer: &Explanation, out: &mut impl Write) -> io::Result<()> {
    let worst = answer.worst_case;
    write!(out, "Worst case: {} attempts, ", worst.attempts)?;
    if worst.in_flight > 1 {
        write!(out, "up to {} in flight at once, ", worst.in_flight)?;
    }
    let (Some(plain), Some(hinted)) = (worst.elapsed, worst.elapsed_with_hints) else {
        return writeln!(out, "with no limit on their duration.");
    };
    let (plain, hinted) = (duration::text(plain), duration::text(hinted));
    writeln!(out, "{plain} in all; {hinted} if the server sends hints.")
}

fn fleet(subject: &Subject, out: &mut impl Write) -> io::Result<()> {
    let Some(name) = subject.policy.fleet() else { return Ok(()) };
    let place = subject.location.as_ref().map(|location| format!(", in {}", location.redis));
    writeln!(
        out,
        "Fleet: the budget is one for all instances of {name}{}. The budget above is that of a single process.",
        place.unwrap_or_default()
    )
}

fn print(
    table: &[Vec<String>],
    out: &mut impl Write,
    is_left: impl Fn(usize) -> bool,
) -> io::Result<()> {
    let widths = widths(table);
    table.iter().try_for_each(|row| writeln!(out, "{}", aligned(row, &widths, "  ", &is_left)))
}
