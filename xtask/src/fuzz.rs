//! Fuzzing needs coverage counters in the code under test. The flags for them are stable, so this needs neither a
//! nightly compiler nor another tool.

use std::process::Command;

use crate::cargo::{cargo, output, root, status, target_dir};

const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// Runs a target of `fuzz/fuzz_targets` and returns its exit code. Inputs that crash it are in `fuzz/artifacts`.
pub fn run(target: &str, seconds: u32) -> Result<u8, String> {
    let folder = root().join("fuzz");
    if !folder.join("fuzz_targets").join(target).with_extension("rs").is_file() {
        return Err(format!(
            "unknown target `{target}`: fuzz/fuzz_targets/{target}.rs does not exist"
        ));
    }
    let artifacts = folder.join("artifacts");
    std::fs::create_dir_all(&artifacts).map_err(|error| format!("{artifacts:?}: {error}"))?;
    let mut command = cargo(["run", "--release", "--manifest-path", "fuzz/Cargo.toml", "--bin"]);
    // With an explicit `--target`, build scripts are built without the flags.
    command
        .args([target, "--target", &host()?, "--target-dir"])
        .arg(target_dir().join("fuzz"))
        .arg("--");
    command.arg(folder.join("corpus").join(target));
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    let code = status(command.env("RUSTFLAGS", COVERAGE))?.code();
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

fn host() -> Result<String, String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let version = String::from_utf8_lossy(&version);
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "no host in the output of `rustc -vV`".to_owned())
}
