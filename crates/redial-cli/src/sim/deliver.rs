//! Where the answer goes.

use std::fs::File;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::Args;
use crate::failed::Failed;

/// Where a figure or a page goes. It is opened before the work begins: a name that cannot be written to should
/// not cost a minute of computing.
pub(super) enum Place<'a> {
    Stdout,
    File(&'a str, File),
}

/// What the answer is.
pub(super) enum Form<'a> {
    Text,
    Json,
    Svg(Place<'a>),
    Html(Place<'a>),
}

impl<'a> Form<'a> {
    pub(super) fn of(args: &'a Args) -> Result<Self, Failed> {
        match (&args.svg, &args.html) {
            (Some(name), _) => Ok(Self::Svg(Place::open(name)?)),
            (None, Some(name)) => Ok(Self::Html(Place::open(name)?)),
            (None, None) if args.json => Ok(Self::Json),
            (None, None) => Ok(Self::Text),
        }
    }
}

impl<'a> Place<'a> {
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

/// Curves would be thousands of lines, so with them everything is on one.
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
