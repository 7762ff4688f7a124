//! A name says what is meant without its context. A constant `LIMIT` does not say what it limits, and in which unit. Two public
//! types of one name make a reader ask which one a sentence is about. A number that stands for "none" is a number that code
//! computes with by mistake: an `Option` or an enum says it in the type.

use std::collections::BTreeMap;

use super::ratchet::{self, Item, Ratchet};
use super::{Finding, Tree, rust};

/// Names that do not say what is bounded.
const VAGUE: [&str; 13] = [
    "MOST", "LEAST", "LONGEST", "SHORTEST", "LARGEST", "SMALLEST", "TICK", "LIMIT", "MAX", "MIN",
    "MAXIMUM", "MINIMUM", "BOUND",
];

/// Type names that several files have, and why.
const SHARED: [(&str, &str); 2] = [
    ("Builder", "the builder of its module's type, which names it: `queue::Builder`"),
    ("Error", "the error of its crate or module, as in std"),
];

/// What documentation of a value says if the value has a second meaning. In pieces, because this file is checked too.
const SENTINELS: [&str; 9] = [
    concat!("0 for ", "none"),
    concat!("0 is ", "none"),
    concat!("0 is ", "no "),
    concat!("0 means ", "no"),
    concat!("0 means ", "any"),
    concat!("u64::MAX ", "for"),
    concat!("u32::MAX ", "for"),
    concat!("MAX ", "means"),
    concat!("MAX if ", "none"),
];

pub(super) fn check(tree: &Tree, ratchet: &mut Ratchet) -> Vec<Finding> {
    let mut findings = shared_types(tree, ratchet);
    for (path, text) in tree.with_extension("rs") {
        // `Span::MAX` is a value of its type, as `Duration::MAX` is.
        let is_vague = |line: &str| {
            rust::constant(line).is_some_and(|it| VAGUE.contains(&it)) && !line.contains(": Self")
        };
        let vague = "a constant whose name does not say what is bounded, and in which unit, as `MAX_LINE_BYTES` does";
        findings.extend(lines(path, text, is_vague, vague, &Item::constants(path), ratchet));
        let sentinel = "a value with a second meaning: write an `Option` or an enum";
        findings.extend(lines(path, text, is_sentinel, sentinel, &Item::sentinels(path), ratchet));
    }
    findings
}

/// A finding for each line that is one, if the file may not have as many.
fn lines(
    path: &str,
    text: &str,
    is_finding: impl Fn(&str) -> bool,
    what: &str,
    item: &Item,
    ratchet: &mut Ratchet,
) -> Vec<Finding> {
    let found: Vec<usize> =
        text.lines().enumerate().filter(|(_, line)| is_finding(line)).map(|it| it.0).collect();
    let count = found.len();
    if count == 0 || ratchet.allow(item, count).is_some_and(|allowed| count <= allowed) {
        return Vec::new();
    }
    let message =
        format!("{what}; or as a last resort write `{item} {count}` in {}", ratchet::PATH);
    found.into_iter().map(|index| Finding::new(path, index + 1, message.clone())).collect()
}

/// Public types of one name in several files.
fn shared_types(tree: &Tree, ratchet: &mut Ratchet) -> Vec<Finding> {
    let mut places: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    let is_library = |path: &str| path.starts_with("crates/") && path.contains("/src/");
    for (path, text) in tree.with_extension("rs").filter(|(path, _)| is_library(path)) {
        for (index, line) in text.lines().enumerate() {
            let name = rust::public_type(line).filter(|name| !is_shared(name));
            let all = name.map(|name| places.entry(name).or_default());
            // A second one in a file has other features.
            if let Some(all) = all.filter(|all| all.iter().all(|(known, _)| *known != path)) {
                all.push((path, index + 1));
            }
        }
    }
    let mut findings = Vec::new();
    for (name, all) in places {
        let (item, count) = (Item::types(name), all.len());
        if count < 2 || ratchet.allow(&item, count).is_some_and(|allowed| count <= allowed) {
            continue;
        }
        findings.extend(all.iter().map(|(path, line)| {
            let others: Vec<&str> =
                all.iter().map(|(other, _)| *other).filter(|other| other != path).collect();
            let message = format!(
                "`{name}` is a public type of {} too: rename one of them after what is special about it",
                others.join(" and ")
            );
            Finding::new(path, *line, message)
        }));
    }
    findings
}

fn is_shared(name: &str) -> bool {
    SHARED.iter().any(|(shared, _)| *shared == name)
}

fn is_sentinel(line: &str) -> bool {
    let code = line.trim_start();
    let is_documented =
        code.starts_with("///") && SENTINELS.iter().any(|sentinel| code.contains(sentinel));
    is_documented || (code.starts_with("pub const ") && rust::constant(line) == Some("NEVER"))
}
