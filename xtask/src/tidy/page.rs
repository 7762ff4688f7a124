//! The page in `dist/` is built from `app/` and committed, so a change of one without the other ships yesterday's page. A
//! hash of the sources beside the built files tells, on machines without Node too. The code of others in the page needs its
//! licences beside it.

use super::licences::is_accepted;
use super::{Finding, Tree};

/// What a build writes, besides compressed copies.
pub const BUILT: [&str; 4] = ["app.css", "app.js", "index.html", "licences.txt"];

const APP: &str = "crates/redial-web/app/";
const DIST: &str = "crates/redial-web/dist/";

/// The text of `dist/SOURCES`: a hash of the sources, and one of each built file.
#[must_use]
pub fn manifest(tree: &Tree) -> String {
    let mut text = format!("sources {:016x}\n", sources(tree));
    for name in BUILT {
        let built = tree.get(&format!("{DIST}{name}")).unwrap_or_default();
        text += &format!("{name} {:016x}\n", hash(START, built.as_bytes()));
    }
    text
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    if !tree.has_folder(APP.trim_end_matches('/')) {
        return Vec::new();
    }
    let mut findings = licences(tree);
    let (path, now) = (format!("{DIST}SOURCES"), manifest(tree));
    let stored = tree.get(&path).unwrap_or_default();
    for (index, line) in
        now.lines().enumerate().filter(|(i, line)| stored.lines().nth(*i) != Some(line))
    {
        let what = match line.split_once(' ') {
            Some(("sources", _)) | None => {
                "the sources in app/ have changed since dist/ was built".to_owned()
            }
            Some((name, _)) => format!("dist/{name} is not what was built"),
        };
        let message = format!("{what}: run `cargo xtask web`, which needs Node, and commit dist/");
        findings.push(Finding::new(&path, index + 1, message));
    }
    findings
}

/// Every package in `licences.txt` has the version of the lock file, and a licence that we accept.
fn licences(tree: &Tree) -> Vec<Finding> {
    let path = format!("{DIST}licences.txt");
    let lock = tree.get(&format!("{APP}package-lock.json")).unwrap_or_default();
    let mut findings = Vec::new();
    let mut packages = 0;
    for (index, line) in tree.get(&path).unwrap_or_default().lines().enumerate() {
        let Some((name, version, licence)) = package(line) else { continue };
        packages += 1;
        let entry = format!("\"node_modules/{name}\": {{\n      \"version\": \"{version}\"");
        let mut wrong = |message: String| findings.push(Finding::new(&path, index + 1, message));
        if !lock.contains(&entry) {
            wrong(format!("{name} {version} is not in package-lock.json: run `cargo xtask web`"));
        }
        if !is_accepted(licence) {
            wrong(format!("{name} has {licence}, which we do not accept: use another package"));
        }
    }
    if packages == 0 {
        let message = "no licences of the packages in the page: run `cargo xtask web`".to_owned();
        findings.push(Finding::new(&path, 1, message));
    }
    findings
}

/// `== name version: licence`
fn package(line: &str) -> Option<(&str, &str, &str)> {
    let (package, licence) = line.strip_prefix("== ")?.split_once(": ")?;
    let (name, version) = package.rsplit_once(' ')?;
    Some((name, version, licence))
}

fn sources(tree: &Tree) -> u64 {
    let files = tree.iter().filter(|(path, _)| path.starts_with(APP));
    files.fold(START, |state, (path, text)| {
        hash(hash(hash(state, path.as_bytes()), &[0]), format!("{text}\0").as_bytes())
    })
}

const START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: against oversights, not against attacks.
fn hash(state: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(state, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
