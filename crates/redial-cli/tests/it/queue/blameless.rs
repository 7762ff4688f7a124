//! Failures of a worker are not charged to the jobs.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use super::deliver::Receiver;
use super::{Lab, fails, good};
use crate::text;

/// The same command, after a line of shell.
fn after(line: &str, command: &Command) -> Command {
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(format!("{line}; exec \"$@\"")).arg("bash");
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap());
    }
    shell.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    shell
}

fn add(lab: &Lab, jobs: usize) {
    let lines: Vec<_> = (0..jobs).map(|job| job.to_string()).collect();
    good(&lab.feed(&["queue", "add", "--lines"], lines.join("\n").as_bytes()));
}

#[track_caller]
fn uncharged(lab: &Lab, jobs: usize) {
    let left = lab.jobs();
    assert_eq!(left.len(), jobs);
    for job in left {
        assert_eq!((&job["state"], &job["attempts"]), (&"waiting".into(), &0.into()), "{job}");
    }
}

#[test]
fn a_command_that_cannot_be_executed_stops_the_worker_and_charges_no_job() {
    let lab = Lab::new();
    add(&lab, 50);
    let plain = lab.scratch.file("plain.txt", "not a program");
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    for (command, code) in
        [("./resize.sh", "127"), ("no-such-program", "127"), ("./plain.txt", "126")]
    {
        let output = lab.run(&["queue", "work", "--exec", command, "--until", "empty"]);
        fails(&output, 1, &format!("exit code {code}"));
        fails(&output, 1, "this worker stops");
        uncharged(&lab, 50);
    }
    let sh = lab
        .command(&["queue", "work", "--exec", "true", "--until", "empty"])
        .env("PATH", "/nowhere")
        .output();
    fails(&sh.unwrap(), 1, "cannot start the command");
    uncharged(&lab, 50);
}

#[test]
fn a_syntax_error_is_refused_before_a_job_is_claimed() {
    let lab = Lab::new();
    add(&lab, 3);
    fails(&lab.run(&["queue", "work", "--exec", "if then", "--until", "empty"]), 2, "--exec: sh");
    uncharged(&lab, 3);
}

#[test]
fn an_exit_code_that_a_flag_names_is_a_result_of_the_job() {
    let lab = Lab::new();
    add(&lab, 2);
    lab.work(&["--exec", "exit 127", "--until", "empty", "--stop-on-exit", "127"]);
    assert_eq!((&lab.stats()["dead"], &lab.stats()["retried"]), (&2.into(), &0.into()));
}

#[test]
fn a_worker_without_exec_returns_other_jobs_and_logs_it_once() {
    let (lab, receiver) = (Lab::new(), Receiver::new());
    add(&lab, 20);
    lab.ok(&["queue", "send", "-d", "x", &receiver.url()]);
    let worker =
        lab.command(&["queue", "work", "--until", "nothing-due"]).stderr(Stdio::piped()).spawn();
    receiver.receive().answer("204 No Content");
    let output = worker.unwrap().wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(said.matches("not a delivery").count(), 1, "{said}");
    assert!(said.contains("done 1, retried 0, dead 0, postponed"), "{said}");
    uncharged(&lab, 20);
    lab.work(&["--exec", "true", "--until", "empty"]);
    assert_eq!(lab.stats()["done"], 21);
}

fn done_without_loss(lab: &Lab, output: &Output, jobs: usize) {
    assert!(output.status.success(), "{output:?}");
    let stats = lab.stats();
    for (name, count) in [("done", jobs), ("dead", 0), ("retried", 0), ("lost", 0)] {
        assert_eq!(stats[name], count, "{name}: {stats}\n{}", text(&output.stderr));
    }
}

#[test]
fn commands_wait_when_descriptors_run_out_and_are_not_charged() {
    let lab = Lab::new();
    add(&lab, 100);
    let policy = super::QUICK.replace("attempts = 3", "attempts = 1");
    lab.scratch.file("once.toml", policy);
    let args = [
        "queue",
        "work",
        "--policy",
        "once.toml",
        "--workers",
        "64",
        "--until",
        "empty",
        "--exec",
        "sleep 0.05",
    ];
    let output = after("ulimit -n 40", &lab.command(&args)).output().unwrap();
    done_without_loss(&lab, &output, 100);
    let said = text(&output.stderr);
    assert!(said.contains("Too many open files"), "nothing was tested: {said}");
}

#[test]
fn the_soft_limit_of_descriptors_is_raised_for_the_worker_and_not_for_its_commands() {
    let lab = Lab::new();
    add(&lab, 100);
    let policy = super::QUICK.replace("attempts = 3", "attempts = 1");
    lab.scratch.file("once.toml", policy);
    let args =
        ["queue", "work", "--policy", "once.toml", "--workers", "64", "--until", "empty", "--exec"];
    let mut command = lab.command(&args);
    command.arg("ulimit -n >> limits; sleep 0.05");
    let output = after("ulimit -S -n 40", &command).output().unwrap();
    done_without_loss(&lab, &output, 100);
    assert!(!text(&output.stderr).contains("Too many open files"), "{output:?}");
    assert!(lab.wrote("limits").iter().all(|limit| limit == "40"), "{:?}", lab.wrote("limits"));
}

#[test]
fn a_worker_stops_when_its_store_is_deleted_or_replaced() {
    for (line, happened) in
        [("rm jobs.db", "was deleted"), ("cp jobs.db x; mv x jobs.db", "was replaced")]
    {
        let lab = Lab::new();
        add(&lab, 1);
        let mut worker = lab.start(&["--exec", "echo >> ran"]);
        crate::eventually(|| lab.wrote("ran").len() == 1);
        good(&lab.shell(line).output().unwrap());
        assert_eq!(crate::exit_code(&mut worker), Some(1));
        let output = worker.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(said.contains(happened) && said.contains("restore a backup"), "{said}");
    }
}

#[test]
fn a_backup_can_be_opened() {
    let lab = Lab::new();
    add(&lab, 10);
    assert_eq!(lab.ok(&["queue", "backup", "copy.db"]), "copy.db\n");
    fails(&lab.run(&["queue", "backup", "copy.db"]), 2, "exists already");
    fails(&lab.run(&["queue", "backup", "x.db", "--store", "postgres://x/y"]), 2, "pg_dump");
    fails(
        &lab.run(&["queue", "backup", "x.db", "--store", "nowhere.db"]),
        2,
        "is not a Redial store",
    );
    assert_eq!(lab.ok(&["queue", "verify", "--store", "copy.db"]), "the store is intact\n");
    lab.work(&["--store", "copy.db", "--exec", "true", "--until", "empty"]);
    assert_eq!(lab.stats()["due"], 10, "the first one is as it was");
}
