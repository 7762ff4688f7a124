use std::io::{self, Write};

use clap::builder::PossibleValuesParser;
use redial_policy::SCHEMA;

/// Print the JSON Schema of policy files, for editors, or of the JSON that a command prints
#[derive(clap::Args)]
#[command(after_help = "\
An editor with the schema completes names, shows their meaning, and marks errors. Even Better TOML (VS Code) and taplo take \
it from the first line of a policy file:
  #:schema ./redial.schema.json

or for all policy files from .taplo.toml:
  [[rule]]
  include = [\"**/*.redial.toml\"]
  [rule.schema]
  path = \"redial.schema.json\"

The schema has the fields and their ranges. `redial check` also checks what depends on more than one field (backoff.base is \
at most backoff.cap), and whether a policy is safe.

Examples:
  redial schema > redial.schema.json
  # the JSON of `redial check --json`
  redial schema --output check > check.schema.json
  redial schema --list")]
pub(crate) struct Args {
    /// Print the schema of the JSON that a command prints
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(OUTPUTS.iter().map(|(name, _)| *name)), hide_possible_values = true)]
    output: Option<String>,
    /// List the names for --output
    #[arg(long, conflicts_with = "output")]
    list: bool,
}

macro_rules! outputs {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../schemas/", $name, ".json")))),*]
    };
}

/// What commands print as JSON, by name.
const OUTPUTS: &[(&str, &str)] = outputs![
    "check",
    "check-rubric",
    "check-rules",
    "demo",
    "dlq-purge",
    "dlq-redrive",
    "doctor",
    "explain",
    "export",
    "import",
    "job",
    "peers",
    "preset",
    "presets",
    "queue-add",
    "queue-clock",
    "queue-rm",
    "queue-stats",
    "queue-verify",
    "sim",
    "sim-bench",
    "sim-contention",
    "sim-list",
    "sim-sweep",
];

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<()> {
    if args.list {
        return OUTPUTS.iter().try_for_each(|(name, _)| writeln!(out, "{name}"));
    }
    let named = |output: &String| OUTPUTS.iter().find(|(name, _)| name == output);
    let schema = args.output.as_ref().and_then(named).map_or(SCHEMA, |(_, schema)| schema);
    out.write_all(schema.as_bytes())
}
