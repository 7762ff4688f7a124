//! `redial import` and `redial export`: translate a policy from or to another system, and report what was lost.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use redial_policy::file::{File, Named, Route, Setting};
use redial_policy::{Format, Note, NoteKind};
use serde_json::{Map, Value, json};

use crate::check::report::{Asked, Report};
use crate::check::{formats, human, written_formats};
use crate::failed::Failed;
use crate::foreign::{unique, valid};
use crate::text::sanitise;

/// Translate the retry config of another system into a Redial policy file
#[derive(clap::Args)]
#[command(after_help = "\
Writes the policies to standard output, and to standard error which fields were kept, approximated or dropped. All \
retry configs that are found are translated, of any known system. Limits that count retries become limits that count \
attempts.

Exit codes: 0 translated, 1 something was lost and --strict was given, 2 something could not be read.

Examples:
  # a config to import
  redial presets web > retry.toml
  redial export retry.toml --to istio -o istio.yaml
  # the same as a policy
  redial import istio.yaml
  # everything in a directory
  redial import . -o all.toml
  # a known format
  redial import istio.yaml --from istio
  # the policies and the report, for a program
  redial import istio.yaml --json")]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    input: Input,
}

/// Translate a Redial policy file into the retry config of another system
#[derive(clap::Args)]
#[command(after_help = "\
Writes the config to standard output, and to standard error which fields were kept, approximated or dropped.

Exit codes: 0 translated, 1 something was lost and --strict was given, 2 something could not be read or cannot be \
expressed in that system.

Examples:
  redial presets web > retry.toml
  # routes and clusters for Envoy
  redial export retry.toml --to envoy
  # a service config
  redial export retry.toml --to grpc -o service.json
  # from one system to another
  redial export service.json --from grpc --to envoy")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    input: Input,
    /// The system to export to
    #[arg(long, value_name = "FORMAT", value_parser = written_formats())]
    to: Format,
}

#[derive(clap::Args)]
struct Input {
    /// A file, a directory, or - for standard input
    file: PathBuf,
    /// Format of the input [default: detected]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    from: Option<Format>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Exit with 1 if anything is approximated or dropped
    #[arg(long)]
    strict: bool,
    /// Print JSON, including the report
    #[arg(long)]
    json: bool,
}

/// The notes on the fields of each policy.
type Account = Vec<(String, Vec<Note>)>;

pub(crate) fn import(args: &ImportArgs, out: &mut impl Write) -> Result<(), Failed> {
    let (file, account) = read(&args.input)?;
    let text = write(&file, Format::Redial)?.0;
    let mut answer = json!({ "policies": policies(&file) });
    deliver(&args.input, &text, &account, &mut answer, out)
}

pub(crate) fn export(args: &ExportArgs, out: &mut impl Write) -> Result<(), Failed> {
    let (file, mut account) = read(&args.input)?;
    let (text, more) = write(&file, args.to)?;
    account.extend(more);
    let mut answer = json!({ "config": text });
    deliver(&args.input, &text, &account, &mut answer, out)
}

/// The policies of a file, under valid and unique names. Redial's own files are read without loss.
fn read(input: &Input) -> Result<(File, Account), Failed> {
    let asked = Asked { format: input.from, skips_unknown: false };
    let report = Report::read(std::slice::from_ref(&input.file), asked);
    human::problems(&report)?;
    if !report.problems.is_empty() {
        return Err(Failed::Reported(2));
    }
    if report.found.is_empty() {
        return Err(Failed::input(input.file.display(), "no retry config found"));
    }
    let (mut file, mut account, mut names) = (File::default(), Account::new(), HashMap::new());
    for found in report.found {
        let name = unique(&valid(&found.name), &mut names);
        let routes = found.routes.into_iter().map(|it| Route { policy: name.clone(), ..it });
        file.routes.extend(routes);
        if found.format != Format::Redial {
            account.push((name.clone(), found.notes));
        }
        file.policies.push(Named { name, policy: found.policy, setting: found.setting });
    }
    share_setting(&mut file);
    Ok((file, account))
}

/// Moves a setting that all policies have to the file.
fn share_setting(file: &mut File) {
    let Some((first, rest)) = file.policies.split_first() else { return };
    if rest.iter().all(|policy| policy.setting == first.setting) {
        file.setting = first.setting.clone();
        file.policies.iter_mut().for_each(|policy| policy.setting = Setting::default());
    }
}

fn write(file: &File, format: Format) -> Result<(String, Account), Failed> {
    let written = format.write(file);
    let written = written.map_err(|problem| Failed::input(format.name(), problem))?;
    Ok((written.text, written.notes))
}

fn policies(file: &File) -> Value {
    let policies = file.policies.iter().map(|it| (it.name.clone(), json!(it.policy)));
    Value::Object(policies.collect::<Map<_, _>>())
}

fn deliver(
    input: &Input,
    text: &str,
    account: &Account,
    answer: &mut Value,
    out: &mut impl Write,
) -> Result<(), Failed> {
    if input.json {
        answer["notes"] = notes(account);
        put(input.output.as_deref(), &format!("{answer:#}\n"), out)?;
    } else {
        put(input.output.as_deref(), text, out)?;
        print_report(account)?;
    }
    let is_lost = account.iter().flat_map(|(_, notes)| notes).any(|it| it.kind != NoteKind::Kept);
    if input.strict && is_lost { Err(Failed::Reported(1)) } else { Ok(()) }
}

fn put(path: Option<&Path>, text: &str, out: &mut impl Write) -> Result<(), Failed> {
    match path {
        None => {
            out.write_all(text.as_bytes())?;
            // On a terminal the report comes after it.
            Ok(out.flush()?)
        }
        Some(path) => fs::write(path, text)
            .map_err(|error| Failed::Other(format!("{}: {error}", path.display()))),
    }
}

fn notes(account: &Account) -> Value {
    let notes = account.iter().flat_map(|(policy, notes)| {
        notes.iter().map(move |note| {
            json!({
                "policy": policy,
                "kind": note.kind.name(),
                "field": note.field,
                "text": note.text,
            })
        })
    });
    notes.collect()
}

/// By policy, with losses last: they are what a person has to read.
fn print_report(account: &Account) -> io::Result<()> {
    let mut out = io::stderr().lock();
    for (policy, notes) in account {
        writeln!(out, "{}", sanitise(policy))?;
        let mut notes: Vec<&Note> = notes.iter().collect();
        notes.sort_by_key(|note| note.kind);
        for Note { kind, field, text } in notes {
            writeln!(out, "  {:12}  {}: {}", kind.name(), sanitise(field), sanitise(text))?;
        }
    }
    Ok(())
}
