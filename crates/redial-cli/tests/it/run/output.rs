//! The output that a reader gets.

use std::io::Read as _;
use std::process::{Command, Stdio};

use super::{Lab, code, line_of};
use crate::text;

#[test]
fn only_the_last_attempt_is_passed_on() {
    let script = "echo out $REDIAL_ATTEMPT; echo err $REDIAL_ATTEMPT >&2; [ $REDIAL_ATTEMPT = 3 ]";
    let output = Lab::new().run(&["--log", "none"], script);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("out 3\n", "err 3\n"));
    let output = Lab::new().run(&["--log", "none", "--attempts", "2"], script);
    assert_eq!(
        (code(&output), text(&output.stdout), text(&output.stderr)),
        (1, "out 2\n", "err 2\n")
    );
}

#[test]
fn streaming_passes_everything_on() {
    let script = "echo out $REDIAL_ATTEMPT; [ $REDIAL_ATTEMPT = 2 ]";
    for flags in
        [&["--output", "stream"][..], &["--output", "stream", "--stop-on-output", "nothing"]]
    {
        let output = Lab::new().run(flags, script);
        assert_eq!(text(&output.stdout), "out 1\nout 2\n", "{flags:?}");
    }
}

#[test]
fn streamed_output_arrives_before_the_end() {
    let lab = Lab::new();
    let fifo = lab.fifo("meet");
    let flags = ["--output", "stream", "--stop-on-output", "nothing"];
    let mut command = lab.command(&flags, "echo early; read go < meet; echo late");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut early = [0; 6];
    out.read_exact(&mut early).unwrap();
    assert_eq!(&early, b"early\n");
    std::fs::write(&fifo, "go\n").unwrap();
    let mut late = String::new();
    out.read_to_string(&mut late).unwrap();
    assert_eq!(late, "late\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn bytes_are_passed_on_as_they_are_whatever_their_number() {
    let lab = Lab::new();
    let bytes: Vec<u8> =
        (0..5_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(lab.path("bytes"), &bytes).unwrap();
    for flags in [&[][..], &["--output", "stream", "--stop-on-output", "nothing"]] {
        let script = "[ $REDIAL_ATTEMPT = 1 ] && exit 1; cat bytes; tail -c 100 bytes >&2";
        let output = lab.run(&[flags, &["--log", "none"]].concat(), script);
        assert!(output.stdout == bytes, "{flags:?}: {} bytes", output.stdout.len());
        assert_eq!(output.stderr, bytes[bytes.len() - 100..], "{flags:?}");
    }
    assert!(
        !std::fs::read_dir(&lab.dir)
            .unwrap()
            .any(|entry| entry.unwrap().path().ends_with("redial-")),
        "nothing is left behind"
    );
}

#[test]
fn a_full_disk_for_output_is_reported() {
    let lab = Lab::new();
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        assert_eq!(code(&output), 125);
        text(&output.stderr).to_owned()
    };
    let full = std::fs::File::create("/dev/full").unwrap();
    let told = run(lab.command(&[], "echo hi").stdout(full));
    assert!(told.contains("cannot pass on output: No space left"), "{told}");
    let told = run(lab.command(&[], "head -c 2000000 /dev/zero").env("TMPDIR", "/no/such/place"));
    assert!(told.contains("cannot store output in /no/such/place"), "{told}");
}

#[test]
fn events_always_have_the_same_fields() {
    let lab = Lab::new();
    let fields = |output: &std::process::Output, name: &str| {
        let line = text(&output.stderr).lines().find(|line| line.contains(name)).unwrap();
        assert!(line.starts_with("{\"event\":\""), "the event comes first: {line}");
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        event.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>()
    };
    let failed = lab.run(&["--log", "json"], "exit 1");
    let missing = lab.bare(&["--log", "json", "--", "no-such-command"]).output().unwrap();
    let ended = "\"ended\"";
    assert_eq!(fields(&failed, ended), fields(&missing, ended));
    assert_eq!(
        fields(&failed, "\"wait\"").into_iter().collect::<Vec<_>>(),
        ["attempt", "delay_ms", "elapsed_ms", "event", "reason", "time"]
    );
}

#[test]
fn streams_to_the_same_file_keep_their_order() {
    let lab = Lab::new();
    let script =
        "for i in 1 2 3 4 5 6 7 8 9; do echo $i; echo e$i >&2; done; [ $REDIAL_ATTEMPT = 2 ]";
    let redial = env!("CARGO_BIN_EXE_redial");
    let line = format!("{redial} run --base 1ms --log none -- sh -c '{script}' > both 2>&1");
    let mut shell = crate::program("sh");
    shell.args(["-c", &line]).current_dir(&lab.dir);
    assert!(shell.env("XDG_RUNTIME_DIR", &lab.dir).status().unwrap().success());
    let expected: String = (1..=9).map(|i| format!("{i}\ne{i}\n")).collect();
    assert_eq!(lab.read("both"), expected);
}

#[test]
fn in_a_pipeline_the_reader_gets_one_result_and_may_close_it() {
    let lab = Lab::new();
    let redial = env!("CARGO_BIN_EXE_redial");
    let shell = |line: &str| {
        let mut command = crate::program("bash");
        command.args(["-c", line]).current_dir(&lab.dir).env("XDG_RUNTIME_DIR", &lab.dir);
        command.output().unwrap()
    };
    let flaky = "sh -c 'echo $REDIAL_ATTEMPT; [ $REDIAL_ATTEMPT = 3 ]'";
    let output = shell(&format!("echo in | {redial} run --base 1ms --log none -- {flaky} | cat"));
    assert_eq!(text(&output.stdout), "3\n");
    let run = format!("{redial} run --base 1ms --log json");
    let output = shell(&format!("{run} -- seq 1000000 | head -n 1; echo ${{PIPESTATUS[0]}}"));
    assert_eq!(text(&output.stdout), "1\n141\n", "{}", text(&output.stderr));
    for stream in ["--output stream --stop-on-output nothing", "--output stream"] {
        let output = shell(&format!("{run} {stream} -- yes | head -n 1; echo ${{PIPESTATUS[0]}}"));
        assert_eq!(text(&output.stdout), "y\n141\n", "{stream}: {}", text(&output.stderr));
        let attempts = text(&output.stderr).matches("\"attempt\",").count();
        assert_eq!(attempts, 1, "{stream}: another attempt would have no reader");
    }
}

#[test]
fn a_stalled_reader_does_not_delay_a_signal() {
    let lab = Lab::new();
    let fifo = lab.fifo("meet");
    let flags = ["--output", "stream", "--stop-on-output", "nothing"];
    let mut command = lab.command(&flags, "echo $$ > meet; exec yes");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    line_of(&fifo);
    super::signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}
