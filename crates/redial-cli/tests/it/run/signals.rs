//! Signals to `redial run` reach the command.

use std::process::Stdio;

use super::{Lab, eventually, line_of, runs, signal};
use crate::exit_code;

#[test]
fn signals_reach_the_command_and_its_children() {
    for (name, ends) in [
        ("TERM", true),
        ("HUP", true),
        ("INT", true),
        ("QUIT", true),
        ("USR1", false),
        ("USR2", false),
    ] {
        let lab = Lab::new();
        let (ready, heard) = (lab.fifo("ready"), lab.fifo("heard"));
        let script = format!(
            "trap 'echo {name} > heard; exit 9' {name}; (trap 'exit 0' {name}; echo x > ready; sleep 1000 & wait) & wait"
        );
        let mut child =
            lab.command(&["--attempts", "2", "--stop-on-exit", "9"], &script).spawn().unwrap();
        line_of(&ready);
        signal(&child, name);
        assert_eq!(line_of(&heard), name);
        assert_eq!(exit_code(&mut child), Some(9), "the command's own: {name}, {ends}");
    }
}

#[test]
fn a_termination_signal_is_not_retried() {
    let lab = Lab::new();
    let ready = lab.fifo("ready");
    let script = "echo x >> count; trap 'exit 1' TERM; echo x > ready; sleep 1000 & wait";
    let mut child = lab.command(&[], script).spawn().unwrap();
    line_of(&ready);
    signal(&child, "TERM");
    assert_eq!(exit_code(&mut child), Some(1));
    assert_eq!(lab.read("count").lines().count(), 1);
}

#[test]
fn a_signal_during_a_wait_ends_it_at_once() {
    for (name, code) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("QUIT", 131)] {
        let lab = Lab::new();
        let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
        let flags = ["--base", "1h", "--cap", "1h", "--jitter", "none", "--log", "json"];
        command.arg("run").args(flags).args(["--", "sh", "-c", "echo x >> count; exit 1"]);
        command.current_dir(&lab.dir).env("XDG_RUNTIME_DIR", &lab.dir).stdin(Stdio::null());
        let log = std::fs::File::create(lab.path("log")).unwrap();
        let mut child = command.stderr(log).spawn().unwrap();
        eventually(|| lab.read("log").contains("\"event\":\"wait\""));
        signal(&child, name);
        assert_eq!(exit_code(&mut child), Some(code), "{name}");
        assert_eq!(lab.read("count").lines().count(), 1);
        assert!(lab.read("log").contains("\"reason\":\"cancelled\""));
    }
}

#[test]
fn ignored_signals_stay_ignored_and_sigterm_always_works() {
    let lab = Lab::new();
    let ready = lab.fifo("ready");
    let redial = env!("CARGO_BIN_EXE_redial");
    let inner = "grep SigIgn /proc/self/status > ignored; echo x > ready; sleep 1000";
    let line = format!("trap '' HUP INT QUIT TERM; exec {redial} run -- sh -c '{inner}'");
    let mut command = crate::program("sh");
    command.args(["-c", &line]).current_dir(&lab.dir).env("XDG_RUNTIME_DIR", &lab.dir);
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    line_of(&ready);
    for name in ["HUP", "INT", "QUIT"] {
        signal(&child, name);
    }
    let ignored = lab.read("ignored");
    let set = u64::from_str_radix(ignored.split_whitespace().nth(1).unwrap(), 16).unwrap();
    assert_eq!(set & 0b111, 0b111, "the command ignores them too: {ignored}");
    assert_eq!(set & (1 << 14), 0, "but not SIGTERM: {ignored}");
    signal(&child, "TERM");
    assert_eq!(exit_code(&mut child), Some(143));
}

#[test]
fn a_stopped_job_stops_its_command_and_both_continue() {
    let lab = Lab::new();
    let (ready, go) = (lab.fifo("ready"), lab.fifo("go"));
    let mut child = lab.command(&[], "echo $$ > ready; read x < go").spawn().unwrap();
    let command = line_of(&ready);
    let state = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    };
    signal(&child, "TSTP");
    let own = child.id().to_string();
    eventually(|| state(&own) == 'T' && state(&command) == 'T');
    signal(&child, "CONT");
    std::fs::write(&go, "x\n").unwrap();
    assert_eq!(exit_code(&mut child), Some(0));
    assert!(!runs(&command));
}
