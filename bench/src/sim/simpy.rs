//! SimPy, installed by pip.

use std::process::Command;

use super::Speed;
use crate::pip::{installed, output};

const SCRIPT: &str = include_str!("simpy.py");

/// Events a second with this many processes.
pub(super) fn speed(processes: u32, seconds: u32) -> Result<Speed, String> {
    let folder = installed(&["simpy"])?;
    let (processes, seconds) = (processes.to_string(), seconds.to_string());
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT, &processes, &seconds]).env("PYTHONPATH", folder);
    let printed = output(&mut python)?;
    let read = printed.trim().split_once(' ').and_then(|(events, wall_s)| {
        Some(Speed { events: events.parse().ok()?, wall_s: wall_s.parse().ok()? })
    });
    read.ok_or_else(|| format!("SimPy's script printed {printed:?}"))
}
