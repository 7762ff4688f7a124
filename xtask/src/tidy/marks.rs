//! A comment about work that is left for later is forgotten: the work is done now, or belongs in an issue. And a
//! test that is switched off tests nothing.

use super::{Finding, Tree};

/// A mark, the files in which it is a finding, and what to do instead. In pieces, because this file is checked too.
struct Mark {
    text: &'static str,
    extensions: &'static [&'static str],
    instead: &'static str,
}

const DO_IT: &str = "do it now, or open an issue";
const WRITE_IT: &str = "write the code, or remove the item";

const MARKS: &[Mark] = &[
    Mark { text: concat!("TO", "DO"), extensions: &["rs", "md", "toml"], instead: DO_IT },
    Mark { text: concat!("FIX", "ME"), extensions: &["rs", "md", "toml"], instead: DO_IT },
    Mark { text: concat!("X", "XX"), extensions: &["rs"], instead: DO_IT },
    Mark { text: concat!("to", "do!("), extensions: &["rs"], instead: WRITE_IT },
    Mark { text: concat!("unimpl", "emented!("), extensions: &["rs"], instead: WRITE_IT },
    Mark {
        text: concat!("#[", "ignore"),
        extensions: &["rs"],
        instead: "fix the test, or remove it",
    },
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for mark in MARKS {
        for (path, text) in
            mark.extensions.iter().flat_map(|extension| tree.with_extension(extension))
        {
            for (index, _) in text.lines().enumerate().filter(|(_, line)| contains(line, mark.text))
            {
                let message = format!("`{}`: {}", mark.text, mark.instead);
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

/// Whether the line has the mark as a whole word.
fn contains(line: &str, mark: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(mark).any(|(at, _)| {
        let is_word = mark.ends_with(in_word);
        let starts = !line[..at].ends_with(in_word);
        starts && !(is_word && line[at + mark.len()..].starts_with(in_word))
    })
}
