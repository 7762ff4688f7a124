//! A file that is too long to remember, or a function that does not fit on a screen, holds more than one concept.

use super::ratchet::{self, Item, Ratchet};
use super::{Finding, Tree, rust};

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

pub(super) fn check(tree: &Tree, ratchet: &mut Ratchet) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension("rs") {
        let whole = Length { item: Item::file(path), line: 1, lines: text.lines().count() };
        findings.extend(whole.check(FILE_LINES_MAX, ratchet));
        for function in functions(path, text) {
            findings.extend(function.check(FUNCTION_LINES_MAX, ratchet));
        }
    }
    findings
}

struct Length {
    item: Item,
    /// Where it starts.
    line: usize,
    /// How many it has.
    lines: usize,
}

impl Length {
    fn check(self, max: usize, ratchet: &mut Ratchet) -> Option<Finding> {
        let Self { item, line, lines } = self;
        if lines <= max {
            return None;
        }
        let allowed = ratchet.allow(&item, lines).unwrap_or(max);
        (lines > allowed).then(|| {
            let message = format!(
                "{} has {lines} lines, {allowed} are allowed: split it along a concept, or as a \
                 last resort write `{item} {lines}` in {}",
                item.what(),
                ratchet::PATH
            );
            Finding::new(&item.path, line, message)
        })
    }
}

/// The functions whose body has lines of its own.
fn functions(path: &str, text: &str) -> Vec<Length> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = rust::function(line) else {
            continue;
        };
        // The signature ends where the body opens; otherwise it is a declaration, or on one line with its body.
        let mut signature = lines[start..].iter().map(|line| rust::code(line));
        if !signature
            .find(|code| code.ends_with(['{', ';', '}']))
            .is_some_and(|code| code.ends_with('{'))
        {
            continue;
        }
        let close = format!("{}}}", &line[..rust::indent(line)]);
        if let Some(end) = lines[start..].iter().position(|line| *line == close) {
            found.push(Length {
                item: Item::function(path, name),
                line: start + 1,
                lines: end + 1,
            });
        }
    }
    found
}
