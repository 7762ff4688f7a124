//! A renamed file or heading breaks the links to it, and nothing reports that until a reader clicks. Every relative
//! link in Markdown must lead to a file of this repository, and every `#anchor` to a heading there.

use std::collections::{BTreeMap, BTreeSet};

use super::markdown::Lines;
use super::tree::{folder, has_extension, resolve};
use super::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension("md") {
        for (line, prose) in Lines::read(text).prose() {
            let broken = targets(&prose).into_iter().filter_map(|target| {
                let message = problem(tree, path, text, target)?;
                Some(Finding::new(path, line, message))
            });
            findings.extend(broken);
        }
    }
    findings
}

/// What is wrong with a link to `target` in the file `path`.
fn problem(tree: &Tree, path: &str, text: &str, target: &str) -> Option<String> {
    if target.is_empty() || has_scheme(target) {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let (linked, linked_text) = if file.is_empty() {
        (path.to_owned(), text)
    } else {
        // A leading slash means the top of the repository, as on GitHub.
        let from = if file.starts_with('/') { "" } else { folder(path) };
        let Some(linked) = resolve(from, file) else {
            return Some(format!(
                "the link to `{target}` leaves the repository: write its whole URL"
            ));
        };
        match tree.get(&linked) {
            Some(text) => (linked, text),
            None if tree.has_folder(&linked) => return None,
            None => {
                return Some(format!(
                    "the link to `{target}` is broken: `{linked}` does not exist; correct the path"
                ));
            }
        }
    };
    let is_known =
        anchor.is_empty() || !has_extension(&linked, "md") || anchors(linked_text).contains(anchor);
    (!is_known).then(|| {
        format!(
            "the link to `{target}` is broken: `{linked}` has no heading `#{anchor}`; correct the \
             anchor"
        )
    })
}

/// The targets of the links on a line: `[text](target "title")`, `[name]: target`, and HTML attributes.
fn targets(line: &str) -> Vec<&str> {
    let inline = line.match_indices("](").filter_map(|(at, open)| {
        let rest = &line[at + open.len()..];
        match rest.strip_prefix('<') {
            Some(rest) => rest.split_once('>').map(|(target, _)| target),
            None => balanced(rest)?.split_whitespace().next(),
        }
    });
    let tags = ["src=\"", "href=\""].into_iter().flat_map(|attribute| {
        let values = line.match_indices(attribute).map(|(at, open)| &line[at + open.len()..]);
        values.filter_map(|rest| rest.split_once('"').map(|(target, _)| target))
    });
    inline.chain(definition(line)).chain(tags).collect()
}

/// The text up to the parenthesis that closes it.
fn balanced(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(&text[..at]),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn definition(line: &str) -> Option<&str> {
    let (name, target) = line.trim_start().strip_prefix('[')?.split_once("]: ")?;
    // A footnote differs only in its caret.
    let is_link = !name.starts_with('^') && !name.contains(']');
    is_link.then(|| target.split_whitespace().next()).flatten()
}

fn has_scheme(target: &str) -> bool {
    target.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
    })
}

/// Every anchor of a file: its headings as GitHub names them, and the `id`s of HTML tags.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let lines = Lines::read(text);
    for heading in lines.headings() {
        let slug = slug(heading);
        let count = seen.entry(slug.clone()).or_default();
        anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    for (_, prose) in lines.prose() {
        for (at, open) in prose.match_indices("id=\"") {
            anchors.extend(prose[at + open.len()..].split_once('"').map(|(id, _)| id.to_owned()));
        }
    }
    anchors
}

fn slug(heading: &str) -> String {
    let mut text = heading.to_owned();
    // Only the text of a link in a heading counts.
    while let Some(at) = text.find("](") {
        let Some(target) = balanced(&text[at + 2..]) else {
            break;
        };
        text.replace_range(at..at + 2 + target.len() + 1, "");
    }
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}
