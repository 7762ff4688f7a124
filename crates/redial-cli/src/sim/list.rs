//! `redial sim list`: the scenarios.

use std::io::{self, Write};

use redial_sim::contention::BACKOFFS;
use redial_sim::scenario::{BUILT_IN, BuiltIn};
use serde_json::{Value, json};

use super::FIRST;
use super::args::ListArgs;
use super::contention::{NAME, TITLE};
use crate::failed::Failed;
use crate::terminal::Terminal;

pub(super) fn run(args: &ListArgs, out: &mut impl Write) -> Result<(), Failed> {
    if args.json { Ok(as_json(out)?) } else { Ok(text(Terminal::of_stdout(), out)?) }
}

fn listed() -> impl Iterator<Item = &'static BuiltIn> {
    let (first, others): (Vec<_>, Vec<_>) = BUILT_IN.iter().partition(|it| it.name == FIRST);
    first.into_iter().chain(others)
}

fn as_json(out: &mut impl Write) -> io::Result<()> {
    let mut all = Vec::new();
    for built_in in listed() {
        let scenario = built_in.read(&[]).map_err(io::Error::other)?;
        all.push(json!({
            "name": built_in.name,
            "title": scenario.title,
            "teaches": scenario.teaches,
            "policies": scenario.policies,
        }));
    }
    all.push(json!({
        "name": NAME,
        "title": TITLE,
        "teaches": "",
        "policies": BACKOFFS,
    }));
    writeln!(out, "{:#}", Value::from(all))
}

fn text(terminal: Terminal, out: &mut impl Write) -> io::Result<()> {
    let mut rows = Vec::new();
    for scenario in listed() {
        let title = scenario.read(&[]).map(|scenario| scenario.title).map_err(io::Error::other)?;
        rows.push((scenario.name.to_owned(), title));
    }
    rows.push((NAME.to_owned(), TITLE.to_owned()));
    terminal.rows(&rows, out)
}
