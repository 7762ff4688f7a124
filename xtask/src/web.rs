//! The page's sources need Node, and a machine that builds Redial should not: the built files are committed, with a hash of
//! the sources that they come from. This builds them, and checks that they are what a build makes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{find_program, output, root, run as succeed, target_dir};
use crate::setup::{self, Use};
use crate::tidy::Tree;
use crate::tidy::page::{BUILT, manifest};

const APP: &str = "crates/redial-web/app";
const DIST: &str = "crates/redial-web/dist";
/// What has a compressed copy beside it. Compressors differ, so what they make is compared unpacked.
const COMPRESSED: [&str; 2] = ["app.js", "app.css"];
/// The oldest Node that builds the page.
const NODE: (u32, u32) = (20, 19);

/// Builds the page into `dist/`.
pub fn build() -> Result<(), String> {
    install()?;
    let dist = root().join(DIST);
    vite(&dist)?;
    let text = manifest(&Tree::from_git(&root())?);
    write(&dist.join("SOURCES"), text.as_bytes())?;
    println!("{DIST} is built; the first load is {} kB compressed", first_load(&dist)? / 1000);
    Ok(())
}

/// Checks and tests the sources, builds them again elsewhere, and compares every byte with `dist/`.
pub fn verify() -> Result<(), String> {
    setup::try_for(Use::Test);
    install()?;
    for script in ["check", "lint", "test"] {
        succeed(npm().args(["run", script]), "fix what it reports; `npm run format` formats")?;
    }
    let (again, dist) = (target_dir().join("page"), root().join(DIST));
    vite(&again)?;
    for name in BUILT {
        if read(&again.join(name))? != read(&dist.join(name))? {
            return Err(differs(name));
        }
    }
    for name in COMPRESSED {
        let packed = dist.join(format!("{name}.gz"));
        let unpacked = output(Command::new("gzip").arg("-dc").arg(packed))?;
        if unpacked != read(&dist.join(name))? {
            return Err(differs(&format!("{name}.gz")));
        }
    }
    println!("{DIST} is what its sources build");
    Ok(())
}

/// Installs the packages of the page and of its tests, unless they are installed already.
pub fn install() -> Result<(), String> {
    check_node()?;
    let app = root().join(APP);
    let lock = read(&app.join("package-lock.json"))?;
    let mark = app.join("node_modules/.installed-lock.json");
    if fs::read(&mark).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    succeed(npm().args(["ci", "--no-audit", "--no-fund"]), "see what npm reports")?;
    write(&mark, &lock)
}

/// How many bytes a browser loads before the page is there.
pub fn first_load(dist: &Path) -> Result<usize, String> {
    let mut sum = read(&dist.join("index.html"))?.len();
    for name in COMPRESSED {
        sum += read(&dist.join(format!("{name}.gz")))?.len();
    }
    Ok(sum)
}

fn check_node() -> Result<(), String> {
    let (major, minor) = NODE;
    let needed = format!("the page is built with Node {major}.{minor} or later, and npm");
    if find_program("node").is_none() || find_program("npm").is_none() {
        return Err(format!("{needed}: install them, for example with `cargo xtask setup`"));
    }
    let version = output(Command::new("node").arg("--version"))?;
    let version = String::from_utf8_lossy(&version).trim().trim_start_matches('v').to_owned();
    let mut parts = version.split('.').filter_map(|part| part.parse::<u32>().ok());
    match (parts.next(), parts.next()) {
        (Some(a), Some(b)) if (a, b) >= NODE => Ok(()),
        _ => Err(format!("{needed}: this is Node {version}")),
    }
}

fn vite(into: &Path) -> Result<(), String> {
    let mut build = npm();
    build.args(["run", "build", "--", "--logLevel", "warn", "--emptyOutDir", "--outDir"]).arg(into);
    succeed(&mut build, "fix what it reports")
}

fn npm() -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(root().join(APP)).arg("--silent");
    npm
}

fn differs(name: &str) -> String {
    format!("{DIST}/{name} is not what its sources build: run `cargo xtask web` and commit {DIST}")
}

fn read(path: &PathBuf) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
