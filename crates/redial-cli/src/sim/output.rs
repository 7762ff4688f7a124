//! The format and destination of results.

use std::fs::File;
use std::io::{self, Write};

use serde::Serialize;

use super::args::Options;
use crate::failed::Failed;
use crate::text::sanitise;

/// Where a figure or a page is written. It is opened before the simulation, so that an error does not cost minutes of
/// computing.
enum Destination<'a> {
    Stdout,
    File(&'a str, File),
}

/// The format of the result.
pub(super) enum Form<'a> {
    Text,
    Json,
    Pictures(Pictures<'a>),
}

/// A figure, a page, or both.
pub(super) struct Pictures<'a> {
    svg: Option<Destination<'a>>,
    html: Option<Destination<'a>>,
}

impl<'a> Form<'a> {
    pub(super) fn of(options: &'a Options) -> Result<Self, Failed> {
        let open = |name: &'a Option<String>| name.as_deref().map(Destination::open).transpose();
        match (&options.svg, &options.html) {
            (None, None) if options.json => Ok(Self::Json),
            (None, None) => Ok(Self::Text),
            (Some(svg), Some(html)) if svg == html => {
                let why = format!("{svg} cannot be both the figure and the page");
                Err(Failed::input("--svg and --html", why))
            }
            (svg, html) => Ok(Self::Pictures(Pictures { svg: open(svg)?, html: open(html)? })),
        }
    }
}

impl Pictures<'_> {
    /// Writes those that were asked for.
    pub(super) fn put(
        self,
        svg: impl FnOnce() -> String,
        html: impl FnOnce() -> String,
        out: &mut impl Write,
    ) -> Result<(), Failed> {
        if let Some(place) = self.svg {
            place.put(&svg(), out)?;
        }
        if let Some(place) = self.html {
            place.put(&html(), out)?;
        }
        Ok(())
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

    fn put(self, text: &str, out: &mut impl Write) -> Result<(), Failed> {
        let Self::File(name, mut file) = self else { return Ok(out.write_all(text.as_bytes())?) };
        file.write_all(text.as_bytes())
            .map_err(|error| Failed::Other(format!("{name}: {error}")))?;
        Ok(writeln!(io::stderr(), "wrote {}", sanitise(name))?)
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
