//! A benchmark that runs in a debug build, or without the tool that counts its instructions, says
//! nothing: this starts `redial-bench` the way its numbers are meant.

use crate::cargo::{cargo, status};
use crate::setup::{self, Use};

/// Runs `redial-bench` with `args` and returns its exit code.
pub fn run(args: &[String]) -> Result<u8, String> {
    setup::try_for(Use::Bench);
    let mut command = cargo(["run", "--release", "--package", "redial-bench", "--"]);
    let code = status(command.args(args))?.code();
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
