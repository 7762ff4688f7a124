//! Tests of the command as a process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod chart;
mod check;
mod check_clean;
mod check_hostile;
mod check_pages;
mod check_silent;
mod check_simulate;
mod convert;
mod demo;
mod doctor;
mod explain;
mod fleet_proof;
mod foreign;
mod help;
mod ops;
mod pasted;
mod peers;
mod playground;
#[path = "../../../redial/tests/it/ports.rs"]
mod ports;
mod proxy;
mod queue;
mod queue_faults;
mod redis;
mod run;
mod schemas;
mod sim;
mod sim_bench;
mod sim_errors;
mod sim_pages;
mod sim_scale;
mod sim_setting;
mod sim_sweep;
mod up;

use std::ffi::OsStr;
use std::io::{PipeReader, PipeWriter, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::sync::{Arc, Once};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;

fn redial(args: &[&str]) -> Output {
    program(env!("CARGO_BIN_EXE_redial")).args(args).output().unwrap()
}

/// A program with the signal handlers of a foreground job. `nohup` and `&` leave signals ignored, and ignored signals
/// are inherited by child processes; handled ones are not.
fn program(name: impl AsRef<OsStr>) -> Command {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
        // All Rust programs ignore SIGPIPE, and std resets it for child processes.
        let kept = [Signal::SIGKILL, Signal::SIGSTOP, Signal::SIGPIPE];
        for signal in Signal::iterator().filter(|signal| !kept.contains(signal)) {
            if ignored & (1 << (signal as i32 - 1)) != 0 {
                // The test itself still ignores it.
                signal_hook::flag::register(signal as i32, Arc::default()).unwrap();
            }
        }
    });
    Command::new(name)
}

/// A unique path in the temporary directory, over runs and containers.
fn unique(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("redial-{}-{name}", redial::Key::fresh()))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A full pipe. It contains dots.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    while writer.write(b".").is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, writer)
}

/// The numbers of all processes.
fn processes() -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The fields of /proc/PID/stat after the name of a process: its state, its parent, and so on.
fn stat(pid: &str) -> Vec<String> {
    let all = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = all.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().map(str::to_owned));
    fields.into_iter().flatten().collect()
}

fn children(of: u32) -> Vec<u32> {
    let parent = of.to_string();
    processes().into_iter().filter(|pid| stat(&pid.to_string()).get(1) == Some(&parent)).collect()
}

/// Whether a process is running; a zombie is not.
fn runs(pid: &str) -> bool {
    stat(pid).first().is_some_and(|state| !matches!(state.as_str(), "Z" | "X"))
}

/// Waits for a condition. The limit only ends a test that has failed; no machine is that slow.
#[allow(clippy::disallowed_methods, reason = "nothing tells a test when another process is ready")]
#[track_caller]
fn eventually(mut what: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if what() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    panic!("it did not happen within two minutes");
}

/// Waits for the end of a process, and returns its exit code.
#[track_caller]
fn exit_code(child: &mut Child) -> Option<i32> {
    let mut ended = None;
    eventually(|| {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    ended.and_then(|status| status.code())
}

/// Preloads libfaketime into a command; the caller sets the time. Monotonic clocks are unchanged.
fn with_faketime(command: &mut Command) -> &mut Command {
    let folders =
        ["/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
    let library = folders.iter().map(|folder| format!("{folder}/faketime/libfaketimeMT.so.1"));
    let Some(library) = library.into_iter().find(|path| std::path::Path::new(path).exists()) else {
        panic!("libfaketimeMT.so.1 is missing: run `cargo xtask setup`");
    };
    command.env("LD_PRELOAD", library).env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
}

/// The URL of the Postgres of the tests.
fn postgres() -> String {
    let Ok(url) = std::env::var("REDIAL_TEST_POSTGRES") else {
        panic!("REDIAL_TEST_POSTGRES is not set: `cargo xtask test` starts a Postgres and sets it");
    };
    url
}

/// A directory for the files of a test, which is removed with this.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = unique(&format!("{name}.d"));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// The path of a file in it; for an empty name, of the directory.
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file, and returns its path.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn help_shows_the_command() {
    let output = redial(&["--help"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("Usage: redial <COMMAND>"));
    assert!(text(&output.stdout).contains("presets"));
    let output = redial(&["presets", "--help"]);
    assert!(text(&output.stdout).contains("Examples:"));
}

#[test]
fn wrong_usage_is_exit_2_and_lists_the_choices() {
    for args in [&["presets", "standrad"][..], &["storm"], &[]] {
        let output = redial(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "nothing on stdout but the answer");
    }
    assert!(text(&redial(&["presets", "standrad"]).stderr).contains("payment-processor"));
}

#[test]
fn presets_are_listed_with_their_worst_case() {
    let output = redial(&["presets"]);
    let line = |name: &str| {
        text(&output.stdout).lines().find(|line| line.starts_with(name)).unwrap().to_owned()
    };
    assert!(line("fraud-score").contains("1300ms"), "4·150 + 100 + 200 + 400 ms");
    assert!(line("standard ").contains("the calls + 10"));
    assert!(line("standard-0.1").contains("1.1× the calls"));
    assert!(line("player").contains(" 2 "));
    let words: Vec<_> = text(&output.stdout).split_whitespace().collect();
    let described = words.join(" ");
    assert!(described.contains("every call that takes longer than 150 ms fails"), "{described}");
}

#[test]
fn a_preset_is_a_policy_file() {
    for preset in redial_core::Preset::ALL {
        let output = redial(&["presets", preset.name()]);
        let policy: redial_core::Policy = toml::from_str(text(&output.stdout)).unwrap();
        assert_eq!(policy, preset.into());
    }
}

#[test]
fn json_is_json() {
    let all: serde_json::Value =
        serde_json::from_slice(&redial(&["presets", "--json"]).stdout).unwrap();
    assert_eq!(all.as_array().unwrap().len(), redial_core::Preset::ALL.len());
    let one = redial(&["presets", "fraud-score", "--json"]);
    let one: serde_json::Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(one["worst_case"]["elapsed_ms"], 1300.0);
    assert_eq!(one["policy"]["attempt_timeout"], "150ms");
}
