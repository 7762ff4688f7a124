//! `redial check`: is this retry config safe?

mod github;
pub(crate) mod human;
mod json;
pub(crate) mod report;
mod sarif;
mod shows;
mod simulate;
pub(crate) mod spot;
mod walk;

use std::io::Write;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use redial_core::{Nanos, Rate, parse_duration};
use redial_policy::file::{Layer, Setting};
use redial_policy::rules::{self, Rule};
use redial_policy::{Format, Found, Severity};

use crate::failed::Failed;
use report::Report;

/// Review retry configs, ours or another system's, alone or in whole directories of manifests
#[derive(clap::Args)]
#[command(after_help = "\
Everything is read before anything is reviewed: a mesh keeps the budget of a route in another file than the route. What
is said here about the setting takes the place of what a file says about it.

Exit code: 0 nothing to say, 1 findings at or above --deny, 2 something could not be read.

Examples:
  redial check retry.toml                             one of ours
  redial check --slo 2s --clients 200 k8s/            what manifests say, in this setting
  helm template . | redial check -                    what a template makes
  redial check application.conf --from resilience4j   a file whose name says nothing
  redial check k8s/ --simulate                        what the findings do to a backend, in numbers
  redial check . --format sarif > redial.sarif        for code scanning
  redial check --list-rules                           what is looked for")]
pub(crate) struct Args {
    /// Files, directories, or - for standard input
    #[arg(required_unless_present = "list_rules", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    setting: SettingArgs,
    /// Read every file as this, whatever it looks like
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    from: Option<Format>,
    /// The least severity that fails
    #[arg(long, value_name = "SEVERITY", default_value = "warning", value_parser = severities())]
    deny: Severity,
    /// Do not apply this rule; repeat it for others
    #[arg(long, value_name = "RULE", value_parser = rules())]
    allow: Vec<&'static Rule>,
    /// How to say it
    #[arg(long, value_enum, default_value_t = Form::Human)]
    format: Form,
    /// Run the scenarios that show what the findings do, and print the numbers
    #[arg(long)]
    simulate: bool,
    /// Say what is looked for
    #[arg(long, conflicts_with = "files")]
    list_rules: bool,
}

/// What no config can say.
#[derive(clap::Args)]
#[command(next_help_heading = "The setting")]
struct SettingArgs {
    /// How long the user is promised to wait at most
    #[arg(long, value_name = "TIME", value_parser = time)]
    slo: Option<Nanos>,
    /// How many processes make these calls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    clients: Option<u32>,
    /// How many calls all of them make together on a normal day, such as 500/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    calls: Option<Rate>,
    /// How many requests the upstream can serve, such as 2000/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    capacity: Option<Rate>,
    /// The most that retries may multiply the load by
    #[arg(long, value_name = "X", value_parser = multiplier)]
    multiplier: Option<f64>,
    /// How often the layers above these try, outermost first, such as 3,2
    #[arg(long, value_name = "ATTEMPTS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    layers: Vec<u32>,
    /// How finely the clients' timers tick
    #[arg(long, value_name = "TIME", value_parser = time)]
    timer: Option<Nanos>,
}

/// How the answer looks.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// For people
    Human,
    /// For programs
    Json,
    /// For code scanning: SARIF 2.1.0
    Sarif,
    /// Annotations of a GitHub workflow
    Github,
}

pub(crate) fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name))
        .map(|name| Format::from_name(&name).unwrap_or(Format::Redial))
}

fn severities() -> impl TypedValueParser<Value = Severity> {
    PossibleValuesParser::new(Severity::ALL.map(Severity::name)).map(|name| {
        let known = Severity::ALL.into_iter().find(|severity| severity.name() == name);
        known.unwrap_or(Severity::Note)
    })
}

fn rules() -> impl TypedValueParser<Value = &'static Rule> {
    PossibleValuesParser::new(rules::ALL.iter().map(|rule| rule.name)).try_map(|name| {
        rules::ALL.iter().copied().find(|rule| rule.name == name).ok_or("no rule has this name")
    })
}

fn time(text: &str) -> Result<Nanos, String> {
    match parse_duration(text) {
        Ok(0) => Err("must be above zero".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    match text.parse::<Rate>() {
        Ok(Rate { count: 0, .. }) => Err("must be above zero".to_owned()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}

fn multiplier(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(multiplier) if multiplier > 1.0 && multiplier.is_finite() => Ok(multiplier),
        _ => Err("must be a number above 1, such as 1.5".to_owned()),
    }
}

impl SettingArgs {
    /// Whoever types it knows it now; a file was true when it was written.
    fn apply(&self, found: &mut Found) {
        let Setting { slo, clients, calls, capacity, multiplier, timer, chain, .. } =
            &mut found.setting;
        *slo = self.slo.or(*slo);
        *clients = self.clients.or(*clients);
        *calls = self.calls.or(*calls);
        *capacity = self.capacity.or(*capacity);
        *multiplier = self.multiplier.or(*multiplier);
        *timer = self.timer.or(*timer);
        if !self.layers.is_empty() {
            let above = self.layers.iter().enumerate();
            let above = above.map(|(at, attempts)| Layer {
                name: format!("layer {}", at + 1),
                attempts: Some(*attempts),
            });
            let own = Layer { name: found.name.clone(), attempts: Some(found.policy.attempts()) };
            *chain = above.chain([own]).collect();
        }
    }
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    if args.list_rules {
        return Ok(list_rules(args.format, out)?);
    }
    let mut report = Report::read(&args.files, args.from);
    report.review(&args.setting, &args.allow);
    let stopped = if args.simulate { simulate::all(&mut report)? } else { Ok(()) };
    match args.format {
        Form::Human => human::print(&report, out)?,
        Form::Json => json::print(&report, out)?,
        Form::Sarif => sarif::print(&report, args.deny, out)?,
        Form::Github => github::print(&report, out)?,
    }
    stopped?;
    match report.exit_code(args.deny) {
        0 => Ok(()),
        code => Err(Failed::Reported(code)),
    }
}

fn list_rules(form: Form, out: &mut impl Write) -> std::io::Result<()> {
    if form == Form::Json {
        return writeln!(out, "{:#}", json::rules());
    }
    let widest = rules::ALL.iter().map(|rule| rule.name.len()).max().unwrap_or(0);
    for rule in rules::ALL {
        writeln!(out, "{:widest$}  {:7}  {}", rule.name, rule.severity.name(), rule.about)?;
    }
    Ok(())
}
