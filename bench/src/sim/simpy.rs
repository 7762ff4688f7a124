//! SimPy, installed by pip in a directory beside the build.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Speed;

const SCRIPT: &str = include_str!("simpy.py");

/// Events a second with this many processes.
pub(super) fn speed(processes: u32, seconds: u32) -> Result<Speed, String> {
    let folder = installed()?;
    let (processes, seconds) = (processes.to_string(), seconds.to_string());
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT, &processes, &seconds]).env("PYTHONPATH", folder);
    let printed = output(&mut python)?;
    let read = printed.trim().split_once(' ').and_then(|(events, wall_s)| {
        Some(Speed { events: events.parse().ok()?, wall_s: wall_s.parse().ok()? })
    });
    read.ok_or_else(|| format!("SimPy's script printed {printed:?}"))
}

/// The directory, within the build directory, so that nothing else on the machine changes.
fn installed() -> Result<PathBuf, String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let build =
        this.parent().and_then(Path::parent).ok_or("the program has no parent directory")?;
    let folder = build.join("simpy");
    if !folder.join("simpy").is_dir() {
        let mut pip = Command::new("pip3");
        pip.args(["install", "--quiet", "--disable-pip-version-check", "--target"]);
        output(pip.arg(&folder).arg("simpy"))?;
    }
    Ok(folder)
}

fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| {
        format!("{program} does not start ({error}): `cargo xtask setup` installs it")
    })?;
    if !output.status.success() {
        return Err(format!("{program} failed:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
