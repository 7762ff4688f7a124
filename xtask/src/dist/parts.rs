//! Which packages are in the command, and under which licences? `cargo metadata` has the features of the whole workspace,
//! `cargo tree` those of one build: the second says which packages there are, the first what they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cargo::{cargo, output};

/// How the names of files with a licence start, in lower case.
const LICENCE_FILES: &[&str] = &["licen", "copying", "copyright", "notice", "unlicense"];

/// A package that the command is built from.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// An expression of SPDX.
    pub licence: String,
    /// Where its source is.
    pub folder: PathBuf,
    /// Whether it is in this workspace.
    pub is_ours: bool,
    /// The packages that it needs, as [`Part::url`].
    pub uses: BTreeSet<String>,
}

impl Part {
    /// What bills of materials call it.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.name, &self.version)
    }
}

fn url(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// The packages of the command on this target.
pub fn of_command(target: &str, metadata: &Value) -> Result<Vec<Part>, String> {
    let tree =
        "tree --locked --package redial-cli --edges normal --prefix none --format {p} --target";
    let tree = output(cargo(tree.split(' ')).arg(target))?;
    Ok(of_tree(&String::from_utf8_lossy(&tree), metadata))
}

/// The packages of a tree, which has a name and a version with a `v` on each line, sorted by name.
#[must_use]
pub fn of_tree(tree: &str, metadata: &Value) -> Vec<Part> {
    let listed: BTreeSet<String> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some(url(words.next()?, words.next()?.trim_start_matches('v')))
        })
        .collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut parts = BTreeMap::new();
    for package in all(&metadata["packages"]) {
        let manifest = text(&package["manifest_path"]);
        let part = Part {
            name: text(&package["name"]),
            version: text(&package["version"]),
            licence: expression(&text(&package["license"])),
            folder: Path::new(&manifest).parent().map(Path::to_path_buf).unwrap_or_default(),
            is_ours: package["source"].is_null(),
            uses: BTreeSet::new(),
        };
        if listed.contains(&part.url()) {
            parts.insert(text(&package["id"]), part);
        }
    }
    for node in all(&metadata["resolve"]["nodes"]) {
        let is_built = |dependency: &Value| {
            all(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null())
        };
        let built = all(&node["deps"]).into_iter().filter(is_built);
        let uses = built.filter_map(|used| parts.get(&text(&used["pkg"])).map(Part::url)).collect();
        if let Some(part) = parts.get_mut(&text(&node["id"])) {
            part.uses = uses;
        }
    }
    let mut parts: Vec<Part> = parts.into_values().collect();
    parts.sort_by_key(Part::url);
    parts
}

/// The slash is how crates wrote OR before the expressions had a standard.
fn expression(licence: &str) -> String {
    licence.replace('/', " OR ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The licence texts of the packages that are not ours. A text that several of them share appears once.
pub fn licences(parts: &[Part]) -> Result<String, String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for part in parts.iter().filter(|part| !part.is_ours) {
        let title = format!("{} {}: {}", part.name, part.version, part.licence);
        let found = licence_files(&part.folder)?;
        if found.is_empty() {
            return Err(format!("{title}: no licence file in {}", part.folder.display()));
        }
        for file in found {
            let text = std::fs::read(&file).map_err(|error| failed(&file, &error))?;
            let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
            texts.entry(text.trim().to_owned()).or_default().push(title.clone());
        }
    }
    let mut all = String::new();
    for (text, titles) in texts {
        for title in titles {
            let _ = writeln!(all, "== {title}");
        }
        let _ = writeln!(all, "\n{text}\n");
    }
    Ok(all)
}

fn licence_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        path.is_file() && LICENCE_FILES.iter().any(|start| name.starts_with(start))
    });
    found.sort();
    Ok(found)
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
