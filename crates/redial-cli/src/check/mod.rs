//! `redial check`: reviews retry configs.

mod evidence;
mod github;
pub(crate) mod human;
mod json;
pub(crate) mod report;
mod rubric;
mod sarif;
mod simulate;
mod walk;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use redial_core::{Rate, Span};
use redial_policy::file::{Layer, Setting};
use redial_policy::rules::{self, Rule};
use redial_policy::{Format, Found, Severity};

use crate::failed::Failed;
use crate::terminal::Terminal;
use report::{Asked, Located, Report};

/// Review retry configs of Redial or other systems, in single files or directories of manifests
#[derive(clap::Args)]
#[command(after_help = "\
All files are read before any is reviewed, because a mesh may keep a route and its budget in different files. The \
setting given here overrides the setting in a file.

Exit codes: 0 no findings at or above --deny, 1 findings at or above --deny, 2 something could not be read.

Examples:
  redial presets fraud-score > retry.toml
  redial check retry.toml
  # in a setting: what users are promised, and the number of clients
  redial check --slo 6s --clients 200 retry.toml
  # all configs below a directory
  redial check .
  # a rendered template
  redial export retry.toml --to envoy 2> report | redial check -
  # what the findings do to a backend
  redial check retry.toml --simulate
  # for code scanning
  redial check . --format sarif > redial.sarif
  # files of which some have no retries, as in a commit hook
  redial check --skip-unknown retry.toml redial.sarif
  # the score of an answer to the payment exercise
  redial check --rubric retry.toml
  redial check --list-rules")]
pub(crate) struct Args {
    /// Files, directories, or - for standard input
    #[arg(required_unless_present = "list_rules", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    setting: SettingArgs,
    /// Format of every file [default: detected]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    from: Option<Format>,
    /// Fail on findings of this severity or above
    #[arg(long, value_name = "SEVERITY", default_value = "warning", value_parser = severities())]
    deny: Severity,
    /// Do not apply this rule; may be repeated
    #[arg(long, value_name = "RULE", value_parser = rules())]
    allow: Vec<&'static Rule>,
    /// Skip files without a retry config, also those that are named here
    #[arg(long)]
    skip_unknown: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Form::Human)]
    format: Form,
    /// Print JSON: short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Simulate what the findings do to a backend, and print the numbers
    #[arg(long)]
    simulate: bool,
    /// Score each policy by the five points of the payment exercise, in human or JSON format; fails below four points
    #[arg(long, conflicts_with_all = ["simulate", "list_rules"])]
    rubric: bool,
    /// List the rules
    #[arg(long, conflicts_with = "files")]
    list_rules: bool,
}

/// Facts about the system that are in no config.
#[derive(Default, clap::Args)]
#[command(next_help_heading = "Setting")]
struct SettingArgs {
    /// The longest wait that users are promised
    #[arg(long, value_name = "TIME", value_parser = time)]
    slo: Option<Span>,
    /// Number of processes that make these calls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    clients: Option<u32>,
    /// Calls of all clients together on a normal day, such as 500/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    calls: Option<Rate>,
    /// Requests that the upstream can serve, such as 2000/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    capacity: Option<Rate>,
    /// The largest allowed ratio of attempts to calls
    #[arg(long, value_name = "X", value_parser = multiplier)]
    multiplier: Option<f64>,
    /// Attempts of the layers above this one, outermost first, such as 3,2
    #[arg(long, value_name = "ATTEMPTS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    layers: Vec<u32>,
    /// Resolution of the clients' timers
    #[arg(long, value_name = "TIME", value_parser = time)]
    timer: Option<Span>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// For people
    Human,
    /// For programs
    Json,
    /// For code scanning: SARIF 2.1.0
    Sarif,
    /// GitHub workflow annotations
    Github,
}

pub(crate) fn formats() -> impl TypedValueParser<Value = Format> {
    named(|_| true)
}

/// The formats that policies can be exported to.
pub(crate) fn written_formats() -> impl TypedValueParser<Value = Format> {
    named(Format::is_written)
}

fn named(is_possible: fn(Format) -> bool) -> impl TypedValueParser<Value = Format> {
    let possible = Format::ALL.into_iter().filter(|format| is_possible(*format));
    PossibleValuesParser::new(possible.map(Format::name))
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
        rules::ALL.iter().copied().find(|rule| rule.name == name).ok_or("unknown rule")
    })
}

fn time(text: &str) -> Result<Span, String> {
    match text.parse() {
        Ok(Span::ZERO) => Err("must be above zero".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(redial_core::Unreadable::to_string(&error)),
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
    /// Arguments are newer than files.
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

impl Args {
    fn form(&self) -> Form {
        if self.json { Form::Json } else { self.format }
    }
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    if args.list_rules {
        return Ok(list_rules(args.form(), out)?);
    }
    let asked = Asked { format: args.from, skips_unknown: args.skip_unknown };
    let mut report = Report::read(&args.files, asked);
    report.review(&args.setting, &args.allow);
    if args.rubric {
        return rubric(args.form(), &report, out);
    }
    let stopped = if args.simulate { simulate::all(&mut report)? } else { Ok(()) };
    match args.form() {
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

fn rubric(form: Form, report: &Report, out: &mut impl Write) -> Result<(), Failed> {
    match form {
        Form::Human => rubric::print(report, out)?,
        Form::Json => rubric::json(report, out)?,
        Form::Sarif | Form::Github => {
            return Err(Failed::input("--rubric", "prints --format human or json"));
        }
    }
    match rubric::exit_code(report) {
        0 => Ok(()),
        code => Err(Failed::Reported(code)),
    }
}

/// What a review finds in a policy file that must not run; `None` if there is nothing.
pub(crate) fn errors(path: &Path) -> Option<String> {
    let asked = Asked { format: Some(Format::Redial), skips_unknown: false };
    let mut report = Report::read(&[path.to_owned()], asked);
    report.review(&SettingArgs::default(), &[]);
    let is_error = |located: &&Located| located.finding.severity == Severity::Error;
    let errors = report.open().filter(is_error).map(|it| human::plain_finding(&report, it));
    let errors: Vec<String> = errors.collect();
    (!errors.is_empty()).then(|| errors.join("\n\n"))
}

fn list_rules(form: Form, out: &mut impl Write) -> std::io::Result<()> {
    if form == Form::Json {
        return writeln!(out, "{:#}", json::rules());
    }
    let widest = rules::ALL.iter().map(|rule| rule.name.len()).max().unwrap_or(0);
    let row = |rule: &&Rule| {
        let name = format!("{:widest$}  {:7}", rule.name, rule.severity.name());
        (name, rule.about.to_owned())
    };
    Terminal::of_stdout().rows(&rules::ALL.iter().map(row).collect::<Vec<_>>(), out)
}
