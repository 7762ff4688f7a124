//! Modules that depend on each other in a circle can only be understood together, and the order in which a reader meets them
//! is arbitrary. The modules at the top of a crate must not form circles; those inside of one of them may.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::paths::{Named, Paths};
use super::ratchet::{self, Item, Ratchet};
use super::source_file::SourceFile;
use super::{Finding, Tree};

pub(super) fn check(tree: &Tree, ratchet: &mut Ratchet) -> Vec<Finding> {
    let is_root = |path: &str| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let roots = tree.with_extension("rs").map(|(path, _)| path).filter(|path| is_root(path));
    roots.flat_map(|root| check_crate(tree, root, ratchet)).collect()
}

fn check_crate(tree: &Tree, root: &str, ratchet: &mut Ratchet) -> Vec<Finding> {
    let arrows = Arrows::read(tree, root);
    let circles = arrows.circles();
    let modules: BTreeSet<&str> = circles.iter().flatten().copied().collect();
    let (item, count) = (Item::circles(root), modules.len());
    if count == 0 || ratchet.allow(&item, count).is_some_and(|allowed| count <= allowed) {
        return Vec::new();
    }
    circles.iter().map(|circle| arrows.finding(circle, &item, count)).collect()
}

/// Which module at the top of a crate depends on which other, and where.
struct Arrows(BTreeMap<String, BTreeMap<String, Place>>);

struct Place {
    path: String,
    line: usize,
}

/// A file of a crate.
struct File {
    path: String,
    /// Its module; empty for the root.
    module: Vec<String>,
    named: Vec<Named>,
}

impl Arrows {
    fn read(tree: &Tree, root: &str) -> Self {
        let (files, tops) = files(tree, root);
        // The names of the root, with the modules that they come from.
        let mut names: BTreeMap<String, String> =
            tops.iter().map(|top| (top.clone(), top.clone())).collect();
        let in_root = files.iter().filter(|file| file.module.is_empty());
        for named in in_root.flat_map(|file| &file.named).filter(|named| named.inside.is_empty()) {
            let path = from_root(&[], &named.path).unwrap_or_else(|| named.path.clone());
            if let (Some(name), Some(first)) = (&named.imported_as, path.first())
                && tops.contains(first)
            {
                names.insert(name.clone(), first.clone());
            }
        }
        let mut arrows = Self(BTreeMap::new());
        for file in &files {
            for named in &file.named {
                let module = [&file.module[..], &named.inside].concat();
                let target = from_root(&module, &named.path).and_then(|path| path.first().cloned());
                if let (Some(from), Some(to)) =
                    (module.first(), target.and_then(|it| names.get(&it)))
                    && from != to
                {
                    let place = || Place { path: file.path.clone(), line: named.line };
                    let of = arrows.0.entry(from.clone()).or_default();
                    of.entry(to.clone()).or_insert_with(place);
                }
            }
        }
        arrows
    }

    /// Circles that together have every module which is in one.
    fn circles(&self) -> Vec<Vec<&str>> {
        let mut circles: Vec<Vec<&str>> = Vec::new();
        for module in self.0.keys() {
            if !circles.iter().flatten().any(|known| known == module) {
                circles.extend(self.circle(module));
            }
        }
        circles
    }

    /// The shortest circle through a module.
    fn circle<'a>(&'a self, start: &'a str) -> Option<Vec<&'a str>> {
        let mut before: BTreeMap<&str, &str> = BTreeMap::new();
        let mut open = VecDeque::from([start]);
        while let Some(module) = open.pop_front() {
            for next in self.0.get(module).into_iter().flat_map(BTreeMap::keys) {
                if next == start {
                    let steps = std::iter::successors(Some(module), |it| before.get(it).copied());
                    let mut circle: Vec<&str> = steps.collect();
                    circle.reverse();
                    return Some(circle);
                }
                if !before.contains_key(&**next) {
                    before.insert(next, module);
                    open.push_back(next);
                }
            }
        }
        None
    }

    fn finding(&self, circle: &[&str], item: &Item, count: usize) -> Finding {
        let next = circle.iter().cycle().skip(1);
        let arrows = circle.iter().zip(next).map(|(from, to)| (from, to, &self.0[*from][*to]));
        let lines = arrows.clone().map(|(from, to, Place { path, line })| {
            format!("`{from}` uses `{to}` in {path}:{line}")
        });
        let lines: Vec<String> = lines.collect();
        let message = format!(
            "circle: {}; move what both need into a module below them, or make them one module \
             ({count} modules in circles: `{item} {count}` in {})",
            lines.join(", "),
            ratchet::PATH
        );
        let Place { path, line } = &self.0[circle[0]][circle[1 % circle.len()]];
        Finding::new(path, *line, message)
    }
}

/// The files of a crate, and the modules at its top.
fn files(tree: &Tree, root: &str) -> (Vec<File>, BTreeSet<String>) {
    let (mut files, mut tops) = (Vec::new(), BTreeSet::new());
    let mut open = vec![(SourceFile::root(root), Vec::new())];
    while let Some((file, module)) = open.pop() {
        let Paths { modules, named } = file.read(tree);
        for inner in modules.iter().filter(|module| !module.is_for_tests) {
            let path = [&module[..], &inner.path].concat();
            if let [top] = &path[..] {
                tops.insert(top.clone());
            }
            open.extend(file.module(tree, inner).map(|file| (file, path)));
        }
        files.push(File { path: file.path, module, named });
    }
    (files, tops)
}

/// A path that `module` names, from the root of the crate. `None` if it starts elsewhere.
fn from_root(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let (first, mut rest) = path.split_first()?;
    let mut at = match &**first {
        "crate" => Vec::new(),
        "self" => module.to_vec(),
        "super" => module.split_last()?.1.to_vec(),
        _ => return None,
    };
    while let Some(("super", after)) = rest.split_first().map(|(first, after)| (&**first, after)) {
        at.pop();
        rest = after;
    }
    at.extend_from_slice(rest);
    Some(at)
}
