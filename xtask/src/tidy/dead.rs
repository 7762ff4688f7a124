//! A source file without a `mod` declaration is not compiled, and a reader takes it for code. Every `.rs` file
//! must be the root of a crate or be reached from one.

use std::collections::BTreeSet;

use super::rust::{self, Mod};
use super::tree::folder;
use super::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    let roots = tree.with_extension("rs").filter(|(path, _)| is_root(tree, path));
    let mut open: Vec<Module> = roots
        .map(|(path, _)| Module { path: path.to_owned(), children: folder(path).to_owned() })
        .collect();
    while let Some(module) = open.pop() {
        if reached.insert(module.path.clone()) {
            open.extend(module.files(tree));
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

/// A file of a crate.
struct Module {
    path: String,
    /// The folder in which its `mod`s look for files.
    children: String,
}

impl Module {
    /// The files that its `mod` declarations lead to.
    fn files(&self, tree: &Tree) -> Vec<Self> {
        let mut files = Vec::new();
        // The inline modules around the current line, with the column where each closes.
        let mut inside: Vec<(usize, &str)> = Vec::new();
        for line in tree.get(&self.path).unwrap_or_default().lines() {
            let column = rust::indent(line);
            if line.trim_start() == "}" && inside.last().is_some_and(|(open, _)| *open == column) {
                inside.pop();
            }
            match Mod::read(line) {
                Some(Mod::Inline(name)) => inside.push((column, name)),
                Some(Mod::File(name)) => {
                    let names = inside.iter().map(|(_, name)| *name).chain([name]);
                    let parts: Vec<&str> =
                        [self.children.as_str()].into_iter().chain(names).collect();
                    // The workspace's own folder is the empty path, which would leave a slash in front.
                    let stem = parts.join("/").trim_start_matches('/').to_owned();
                    let candidates = [format!("{stem}.rs"), format!("{stem}/mod.rs")];
                    let found = candidates.into_iter().find(|path| tree.get(path).is_some());
                    files.extend(found.map(|path| Self { path, children: stem }));
                }
                None => {}
            }
        }
        files
    }
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
