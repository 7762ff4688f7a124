use std::io::{self, Write};

use redial_policy::SCHEMA;

/// Print the JSON Schema of policy files, for editors
#[derive(clap::Args)]
#[command(
    after_help = "An editor with the schema completes names, shows their meaning, and marks errors:
  redial schema > redial.schema.json

Even Better TOML (VS Code) and taplo take it from the first line of a policy file:
  #:schema ./redial.schema.json

or for all policy files from .taplo.toml:
  [[rule]]
  include = [\"**/*.redial.toml\"]
  [rule.schema]
  path = \"redial.schema.json\"

The schema has the fields and their ranges. `redial check` also checks what depends on more than one
field (backoff.base is at most backoff.cap), and whether a policy is safe."
)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, out: &mut impl Write) -> io::Result<()> {
    out.write_all(SCHEMA.as_bytes())
}
