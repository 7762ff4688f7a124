//! At a terminal, which `script` emulates.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use super::Lab;
use crate::text;

const CTRL_C: &str = "\u{3}";

/// What a terminal shows when `line` is run in it, and the exit code.
#[allow(clippy::disallowed_methods, reason = "nothing tells when a key was not heard")]
fn terminal(lab: &Lab, line: &str, typed: &str) -> (String, i32) {
    use std::io::Write as _;
    let mut command = crate::program("script");
    command
        .args(["-qec", line, "/dev/null"])
        .current_dir(&lab.dir)
        .env("XDG_RUNTIME_DIR", &lab.dir);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = piped.spawn().unwrap();
    let mut keyboard = child.stdin.take().unwrap();
    let fifo = lab.path("ready");
    if fifo.exists() {
        super::line_of(&fifo);
    }
    keyboard.write_all(typed.as_bytes()).unwrap();
    // A shell that is about to start a program may swallow a Ctrl-C, so it is sent again.
    while typed == CTRL_C && child.try_wait().unwrap().is_none() {
        sleep(Duration::from_millis(100));
        let _ = keyboard.write_all(typed.as_bytes());
    }
    let output = child.wait_with_output();
    drop(keyboard);
    let output = output.unwrap();
    (text(&output.stdout).to_owned(), output.status.code().unwrap())
}

fn run(flags: &str) -> String {
    format!("{} run --base 1ms --log none {flags}", env!("CARGO_BIN_EXE_redial"))
}

#[test]
fn the_command_has_the_terminal_and_reads_from_it() {
    let lab = Lab::new();
    lab.fifo("ready");
    let script = "test -t 0 && test -t 1 && test -t 2 && echo all; echo x > ready; read line; echo got $line";
    let (shown, code) = terminal(&lab, &format!("{} -- sh -c '{script}'", run("")), "hello\n");
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("all") && shown.contains("got hello"), "{shown}");
}

#[test]
fn output_to_a_terminal_is_streamed() {
    let lab = Lab::new();
    let script = "echo attempt $REDIAL_ATTEMPT; [ $REDIAL_ATTEMPT = 2 ]";
    let (shown, code) = terminal(&lab, &format!("{} -- sh -c '{script}'", run("")), "");
    assert_eq!(code, 0);
    assert!(shown.contains("attempt 1") && shown.contains("attempt 2"), "{shown}");
}

#[test]
fn ctrl_c_ends_the_command_and_redial() {
    let lab = Lab::new();
    lab.fifo("ready");
    let script = "echo x >> count; echo x > ready; sleep 1000";
    let line = format!("{} -- sh -c '{script}'; echo went on", run(""));
    let (shown, _) = terminal(&lab, &line, CTRL_C);
    assert_eq!(lab.read("count").lines().count(), 1, "{shown}");
    assert!(!shown.contains("went on"), "the script that ran us ends too: {shown}");
}

#[test]
fn in_a_pipeline_the_command_still_reads_from_the_terminal() {
    let lab = Lab::new();
    lab.fifo("ready");
    let script = "echo x > ready; read line; echo got $line";
    let (shown, _) = terminal(&lab, &format!("{} -- sh -c '{script}' | cat", run("")), "hello\n");
    assert!(shown.contains("got hello"), "{shown}");
}
