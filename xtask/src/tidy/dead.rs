//! A source file without a `mod` declaration is not compiled, and a reader takes it for code. Every `.rs` file
//! must be the root of a crate or be reached from one.

use std::collections::BTreeSet;

use super::source_file::SourceFile;
use super::tree::folder;
use super::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    let roots = tree.with_extension("rs").filter(|(path, _)| is_root(tree, path));
    let mut open: Vec<SourceFile> = roots.map(|(path, _)| SourceFile::root(path)).collect();
    while let Some(file) = open.pop() {
        if reached.insert(file.path.clone()) {
            let modules = file.read(tree).modules;
            open.extend(modules.iter().filter_map(|module| file.module(tree, module)));
        }
    }
    let dead = tree.with_extension("rs").filter(|(path, _)| !reached.contains(*path));
    dead.map(|(path, _)| {
        let message =
            "no `mod` declares this file, so it is never compiled: declare it, or remove it";
        Finding::new(path, 1, message.to_owned())
    })
    .collect()
}

/// Whether the file is the root of a cargo target.
fn is_root(tree: &Tree, path: &str) -> bool {
    let Some(crate_folder) = crate_folder(tree, path) else {
        return false;
    };
    let inside = path.strip_prefix(crate_folder).unwrap_or(path).trim_start_matches('/');
    let parts: Vec<&str> = inside.split('/').collect();
    matches!(
        parts[..],
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "examples" | "benches" | "fuzz_targets", _]
            | ["tests" | "examples" | "benches", _, "main.rs"]
    )
}

/// The nearest folder around `path` that holds a manifest.
fn crate_folder<'a>(tree: &Tree, path: &'a str) -> Option<&'a str> {
    let mut around = folder(path);
    loop {
        let manifest = if around.is_empty() {
            "Cargo.toml".to_owned()
        } else {
            format!("{around}/Cargo.toml")
        };
        if tree.get(&manifest).is_some() {
            return Some(around);
        }
        if around.is_empty() {
            return None;
        }
        around = folder(around);
    }
}
