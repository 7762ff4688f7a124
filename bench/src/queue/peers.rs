//! The peers are separate programs, in `bench/peers`, because their dependencies conflict.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use super::cases::measured;

/// How many jobs a peer gets.
pub(super) const PENDING: &str = "20000";

/// Jobs a second of a peer.
pub(super) fn measure(name: &str, store: &str, seconds: &str) -> Result<f64, String> {
    let program = program(name)?;
    if !program.exists() {
        return Err(format!(
            "{} is missing: `cargo xtask bench queue` builds it",
            program.display()
        ));
    }
    measured(Command::new(program).args([store, PENDING, seconds])).map(|measured| measured.rate())
}

/// Where `cargo xtask bench queue` puts it: in `peers`, beside the directory of this program.
fn program(name: &str) -> Result<PathBuf, String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let target = this.parent().and_then(|release| release.parent());
    let target = target.ok_or_else(|| format!("{} is in no target folder", this.display()))?;
    Ok(target.join("peers/release").join(format!("peer-{name}")))
}
