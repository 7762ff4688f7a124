//! The compiler does not know the house rules, and a reviewer forgets them. Here each rule is a check of
//! the whole tree that reports the place and what to write instead; the numbers in `ratchet.txt` only go
//! down.
//!
//! Every check is a function of a [`Tree`] in memory, or of the output of `cargo metadata`: none reads a
//! file or starts a program. A new check is a new file here, a row in [`CHECKS`], and two lines in
//! `tests/it/tidy.rs`.

pub mod arrows;
mod circles;
mod dead;
mod docs;
mod hosts;
mod length;
pub mod licences;
mod links;
mod markdown;
mod marks;
mod names;
pub mod page;
mod paths;
mod ratchet;
mod rust;
mod sidecar;
mod source_file;
mod tree;
mod words;

use std::fmt;

use serde_json::Value;

use crate::cargo::{metadata, root};
use ratchet::Ratchet;
pub use tree::Tree;

/// One broken rule at one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, from the workspace's folder.
    pub path: String,
    /// Counted from 1.
    pub line: usize,
    /// What is wrong, and what to do instead.
    pub message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: String) -> Self {
        Self { path: path.to_owned(), line, message }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, message } = self;
        write!(f, "{path}:{line}: {message}")
    }
}

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    marks::check,
    words::check,
    hosts::check,
    links::check,
    dead::check,
    sidecar::check,
    page::check,
    docs::check,
];

type RatchetedCheck = fn(&Tree, &mut Ratchet) -> Vec<Finding>;

/// The checks with exceptions in `ratchet.txt`.
const RATCHETED_CHECKS: &[RatchetedCheck] = &[length::check, circles::check, names::check];

type MetadataCheck = fn(&Value, &Tree) -> Vec<Finding>;

const METADATA_CHECKS: &[MetadataCheck] = &[arrows::check, licences::check];

/// Every finding of the checks that read files.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let (mut ratchet, mut findings) = Ratchet::read(tree);
    findings.extend(CHECKS.iter().flat_map(|check| check(tree)));
    findings.extend(RATCHETED_CHECKS.iter().flat_map(|check| check(tree, &mut ratchet)));
    findings.extend(ratchet.slack());
    sorted(findings)
}

/// Every finding of the checks that read the output of `cargo metadata`; the tree has the line numbers.
#[must_use]
pub fn check_metadata(metadata: &Value, tree: &Tree) -> Vec<Finding> {
    sorted(METADATA_CHECKS.iter().flat_map(|check| check(metadata, tree)).collect())
}

/// Checks the workspace and prints every finding; an error when there is one.
pub fn run() -> Result<(), String> {
    let tree = Tree::from_git(&root())?;
    // Printed before cargo runs, which fails while a manifest is broken.
    let in_files = print(check(&tree));
    let in_metadata = print(check_metadata(&metadata(&["--all-features"])?, &tree));
    match in_files + in_metadata {
        0 => {
            println!("tidy: no findings");
            Ok(())
        }
        count => Err(format!("tidy: {count} finding(s); each says what to do instead")),
    }
}

fn print(findings: Vec<Finding>) -> usize {
    for finding in &findings {
        println!("{finding}");
    }
    findings.len()
}

fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort();
    findings
}
