//! Some tests run the examples of `redial` as programs. `cargo xtask test` has built them with all the rest; a test
//! that is run by hand builds them first, or it would run an old one.

use std::env::{self, current_exe};
use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::{cargo, output, root, run, target_dir};

/// The variable that tells tests the folder of examples that are up to date.
pub const VARIABLE: &str = "REDIAL_TEST_EXAMPLES";

/// The folder of the examples, for the test program that calls this.
pub fn folder() -> Result<PathBuf, String> {
    if let Some(folder) = env::var_os(VARIABLE) {
        return Ok(folder.into());
    }
    // A test program is `target/debug/deps/it-…`.
    let exe = current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let profile = exe.parent().and_then(Path::parent).ok_or("this is not a test program")?;
    let target = profile.parent().ok_or("this is not a test program")?;
    let build = "build --quiet --package redial --all-features --examples --target-dir";
    let mut command = cargo(build.split(' '));
    command.arg(target);
    if profile.ends_with("release") {
        command.arg("--release");
    }
    output(&mut command)?;
    Ok(profile.join("examples"))
}

/// Checks the examples that are workspaces of their own, in `examples/`.
pub fn check() -> Result<(), String> {
    let folder = root().join("examples");
    let wrong = |error| format!("{}: {error}", folder.display());
    for example in fs::read_dir(&folder).map_err(wrong)? {
        let mut command = cargo(["clippy", "--quiet", "--locked", "--manifest-path"]);
        command.arg(example.map_err(wrong)?.path().join("Cargo.toml"));
        // What they share with the workspace is not built again.
        command.arg("--target-dir").arg(target_dir()).args(["--", "-D", "warnings"]);
        run(&mut command, "fix what it reports")?;
    }
    Ok(())
}
