//! The sidecar has no second engine: whether, when and how often a request is repeated is decided in the library's layers.

use super::{Finding, Tree};

const FOLDER: &str = "crates/redial-proxy/src/";
/// The one file that repeats anything.
const HEALTH_CHECKS: &str = "health_checks.rs";

const OF_THE_ENGINE: &[&str] = &[
    "backoff",
    "jitter",
    "attempt +=",
    "attempts +=",
    "redial_core::schedule",
    "redial_core::call",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| path.starts_with(FOLDER)) {
        let code =
            text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (index, line) in code {
            let line = line.to_lowercase();
            for word in OF_THE_ENGINE.iter().filter(|word| line.contains(**word)) {
                let message =
                    format!("`{word}` in the sidecar: that is the business of `redial`'s layers");
                findings.push(Finding::new(path, index + 1, message));
            }
            if line.contains("interval(") && !path.ends_with(HEALTH_CHECKS) {
                let message = format!("`interval` in the sidecar: only {HEALTH_CHECKS} has one");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}
