use std::io::{self, Write};

use redial_policy::SCHEMA;

/// Print the JSON Schema of policy files, for editors
#[derive(clap::Args)]
#[command(
    after_help = "An editor with it completes names, shows what they mean, and marks what is wrong:
  redial schema > redial.schema.json

Even Better TOML (VS Code) and taplo take it from the first line of a policy file:
  #:schema ./redial.schema.json

or for all of them from .taplo.toml:
  [[rule]]
  include = [\"**/*.redial.toml\"]
  [rule.schema]
  path = \"redial.schema.json\"

It knows fields and ranges. What depends on more than one field (backoff.base is at most
backoff.cap), and whether a policy is wise, only `redial check` knows."
)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, out: &mut impl Write) -> io::Result<()> {
    out.write_all(SCHEMA.as_bytes())
}
