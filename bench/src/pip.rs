//! Packages of PyPI, installed in a directory beside the build, so that nothing else on the machine changes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The directory with these packages, for `PYTHONPATH`.
pub(crate) fn installed(packages: &[&str]) -> Result<PathBuf, String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let build =
        this.parent().and_then(Path::parent).ok_or("the program has no parent directory")?;
    let folder = build.join("tools").join(packages.join("+"));
    if folder.is_dir() {
        return Ok(folder);
    }
    // Only this is left behind by a run that is interrupted, and the next one starts over.
    let part = folder.with_extension("part");
    let _ = fs::remove_dir_all(&part);
    let mut pip = Command::new("pip3");
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--target"]);
    output(pip.arg(&part).args(packages))?;
    fs::rename(&part, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// What the command prints.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| {
        format!("{program} does not start ({error}): `cargo xtask setup` installs it")
    })?;
    if !output.status.success() {
        return Err(format!("{program} failed:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
