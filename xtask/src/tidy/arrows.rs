//! A core that depends on its adapters cannot be used without them. Cargo only rejects cycles, so the
//! direction of each dependency between our crates is written here. Inside of a crate, `circles.rs` checks.

use serde_json::Value;

use super::{Finding, Tree};

/// Which of our crates a crate may depend on; dev-dependencies are free.
enum May {
    Only(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}

/// Every crate of the workspace; a new one is a new row.
const ARROWS: &[(&str, May)] = &[
    ("redial-core", May::Only(&[])),
    ("redial", May::Only(&["redial-core"])),
    ("redial-policy", May::Only(&["redial-core"])),
    ("redial-sim", May::Only(&["redial-core", "redial-policy"])),
    ("redial-live", May::Only(&["redial-core", "redial", "redial-sim"])),
    ("redial-sqlite", May::Only(&["redial-core", "redial"])),
    ("redial-queue", May::Only(&["redial-core", "redial", "redial-policy", "redial-sqlite"])),
    ("redial-proxy", May::Only(&["redial-core", "redial", "redial-policy", "redial-sqlite"])),
    ("redial-web", May::AllBut(&["redial-cli", "redial-bench", "xtask"])),
    ("redial-cli", May::AllBut(&["redial-bench", "xtask"])),
    ("redial-bench", May::AllBut(&["xtask"])),
    ("xtask", May::Only(&[])),
];

/// Checks the dependencies of the workspace's members.
#[must_use]
pub fn check(metadata: &Value, tree: &Tree) -> Vec<Finding> {
    let members: Vec<&Value> =
        packages(metadata).filter(|package| package["source"].is_null()).collect();
    let is_ours = |name: &str| members.iter().any(|member| text(member, "name") == name);
    let top = text(metadata, "workspace_root");
    let mut findings = Vec::new();
    for member in &members {
        let name = text(member, "name");
        let manifest = text(member, "manifest_path");
        let manifest = manifest.strip_prefix(top).unwrap_or(manifest).trim_start_matches('/');
        let Some((_, may)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            let message = format!(
                "`{name}` has no row: add it to the arrow table in xtask/src/tidy/arrows.rs"
            );
            findings.push(Finding::new(manifest, 1, message));
            continue;
        };
        let dependencies = member["dependencies"].as_array().into_iter().flatten();
        let built = dependencies.filter(|dependency| dependency["kind"] != "dev");
        let used = built.map(|dependency| text(dependency, "name")).filter(|used| is_ours(used));
        for used in used.filter(|used| !may.have(used)) {
            let line = tree.line_of(manifest, |line| names(line, used));
            let message = format!(
                "`{name}` must not depend on `{used}` ({may}): move what it needs to a crate \
                 that both may use"
            );
            findings.push(Finding::new(manifest, line, message));
        }
    }
    findings
}

impl May {
    fn have(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.contains(&name),
            Self::AllBut(names) => !names.contains(&name),
        }
    }
}

impl std::fmt::Display for May {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Only([]) => write!(f, "on none of our crates"),
            Self::Only(names) => write!(f, "only on {}", names.join(", ")),
            Self::AllBut(names) => write!(f, "on all but {}", names.join(", ")),
        }
    }
}

/// The packages that `cargo metadata` lists.
pub(super) fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

/// A text field; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Whether a line of a manifest declares the dependency `name`.
fn names(line: &str, name: &str) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '.', '=']))
}
