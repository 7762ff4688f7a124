//! Each machine configures its package registry, perhaps a mirror. A host in our files would bypass that, so only
//! lock files may contain one.

use super::tree::has_extension;
use super::{Finding, Tree};

/// In pieces, because this file is checked too.
const HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("registry", ".npmjs"),
    concat!("deb.", "debian.org"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| !has_extension(path, "lock")) {
        for (index, line) in text.lines().enumerate() {
            for host in HOSTS.iter().filter(|host| line.to_lowercase().contains(**host)) {
                let message =
                    format!("`{host}`: name the package; the registry is a setting of the machine");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}
