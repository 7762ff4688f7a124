//! Work that is left for later is left where nobody looks. It is done now, or it is written where
//! plans are kept; and a test that is switched off tests nothing.

use super::{Finding, Tree};

/// A mark, in which files it counts, and what to do instead. In pieces, because this file is
/// checked too.
struct Mark {
    text: &'static str,
    extensions: &'static [&'static str],
    instead: &'static str,
}

const DO_IT: &str = "do it now, or write it down where the plans are kept";
const WRITE_IT: &str = "write the code, or leave the item out";

const MARKS: &[Mark] = &[
    Mark { text: concat!("TO", "DO"), extensions: &["rs", "md", "toml"], instead: DO_IT },
    Mark { text: concat!("FIX", "ME"), extensions: &["rs", "md", "toml"], instead: DO_IT },
    Mark { text: concat!("X", "XX"), extensions: &["rs"], instead: DO_IT },
    Mark { text: concat!("to", "do!("), extensions: &["rs"], instead: WRITE_IT },
    Mark { text: concat!("unimpl", "emented!("), extensions: &["rs"], instead: WRITE_IT },
    Mark {
        text: concat!("#[", "ignore"),
        extensions: &["rs"],
        instead: "mend the test, or remove it",
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

/// Whether the line has the mark, and not as a part of a longer word.
fn contains(line: &str, mark: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(mark).any(|(at, _)| {
        let is_word = mark.ends_with(in_word);
        let starts = !line[..at].ends_with(in_word);
        starts && !(is_word && line[at + mark.len()..].starts_with(in_word))
    })
}
