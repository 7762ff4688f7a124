//! The format and destination of results.

use std::fs::File;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::Args;
use crate::failed::Failed;

/// Where a figure or a page is written. It is opened before the simulation, so that an error does not cost minutes of
/// computing.
pub(super) enum Destination<'a> {
    Stdout,
    File(&'a str, File),
}

/// The format of the result.
pub(super) enum Form<'a> {
    Text,
    Json,
    Svg(Destination<'a>),
    Html(Destination<'a>),
}

impl<'a> Form<'a> {
    pub(super) fn of(args: &'a Args) -> Result<Self, Failed> {
        match (&args.svg, &args.html) {
            (Some(name), _) => Ok(Self::Svg(Destination::open(name)?)),
            (None, Some(name)) => Ok(Self::Html(Destination::open(name)?)),
            (None, None) if args.json => Ok(Self::Json),
            (None, None) => Ok(Self::Text),
        }
    }
}

impl<'a> Destination<'a> {
    fn open(name: &'a str) -> Result<Self, Failed> {
        if name == "-" {
            return Ok(Self::Stdout);
        }
        match File::create(name) {
            Ok(file) => Ok(Self::File(name, file)),
            Err(error) => Err(Failed::Other(format!("{name}: {error}"))),
        }
    }

    pub(super) fn put(self, text: &str, out: &mut impl Write) -> Result<(), Failed> {
        let Self::File(name, mut file) = self else { return Ok(out.write_all(text.as_bytes())?) };
        file.write_all(text.as_bytes())
            .map_err(|error| Failed::Other(format!("{name}: {error}")))?;
        if io::stderr().is_terminal() {
            writeln!(io::stderr(), "wrote {name}")?;
        }
        Ok(())
    }
}

/// Time series would be thousands of lines, so with them the JSON is on one line.
pub(super) fn json(
    report: &impl Serialize,
    is_long: bool,
    out: &mut impl Write,
) -> Result<(), Failed> {
    let text =
        if is_long { serde_json::to_string(report) } else { serde_json::to_string_pretty(report) };
    let text = text.map_err(|error| Failed::Other(error.to_string()))?;
    Ok(writeln!(out, "{text}")?)
}
