//! Fuzzing needs coverage counters in the code under test. The flags for them are stable, so this needs neither a
//! nightly compiler nor another tool.

use std::fs;
use std::process::Command;

use crate::cargo::{cargo, output, root, run as succeed, status, target_dir};

const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// Runs a target of `fuzz/fuzz_targets` and returns its exit code. Inputs that crash it are in `fuzz/artifacts`.
pub fn run(target: &str, seconds: u32) -> Result<u8, String> {
    if !targets()?.iter().any(|known| known == target) {
        return Err(format!(
            "unknown target `{target}`: fuzz/fuzz_targets/{target}.rs does not exist"
        ));
    }
    let folder = root().join("fuzz");
    let artifacts = folder.join("artifacts");
    fs::create_dir_all(&artifacts).map_err(|error| format!("{artifacts:?}: {error}"))?;
    let mut command = cargo(["run", "--release", "--manifest-path", "fuzz/Cargo.toml", "--bin"]);
    // With an explicit `--target`, build scripts are built without the flags.
    command
        .args([target, "--target", &host()?, "--target-dir"])
        .arg(target_dir().join("fuzz"))
        .arg("--");
    command.arg(folder.join("corpus").join(target)).arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    let code = status(command.env("RUSTFLAGS", COVERAGE))?.code();
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Runs every target for this long. The first that fails ends the run.
pub fn run_all(seconds: u32) -> Result<u8, String> {
    for target in targets()? {
        println!("fuzzing {target} for {seconds} s");
        let code = run(&target, seconds)?;
        if code != 0 {
            eprintln!("failed: {target}");
            return Ok(code);
        }
    }
    Ok(0)
}

/// Builds every target and runs it once on each input of its corpus. That needs no coverage, so what the targets share with the
/// workspace is not built again.
pub fn check() -> Result<(), String> {
    let mut build = cargo(["build", "--manifest-path", "fuzz/Cargo.toml", "--bins"]);
    succeed(build.arg("--target-dir").arg(target_dir()), "fix what it reports")?;
    for target in targets()? {
        let corpus = root().join("fuzz").join("corpus").join(&target);
        let wrong = |error| format!("{}: {error}", corpus.display());
        let mut program = Command::new(root().join(target_dir()).join("debug").join(&target));
        for input in fs::read_dir(&corpus).map_err(wrong)? {
            program.arg(input.map_err(wrong)?.path());
        }
        output(&mut program).map_err(|error| format!("{target} fails on its corpus: {error}"))?;
    }
    Ok(())
}

/// The names of the targets, sorted.
pub fn targets() -> Result<Vec<String>, String> {
    let folder = root().join("fuzz").join("fuzz_targets");
    let wrong = |error| format!("{}: {error}", folder.display());
    let files = fs::read_dir(&folder).map_err(wrong)?.map(|file| file.map(|file| file.path()));
    let files: Vec<_> = files.collect::<Result<_, _>>().map_err(wrong)?;
    let names = files.iter().filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned()));
    let mut names: Vec<_> = names.collect();
    names.sort();
    Ok(names)
}

fn host() -> Result<String, String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let version = String::from_utf8_lossy(&version);
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "no host in the output of `rustc -vV`".to_owned())
}
