//! The help of every command: it fits the terminal, and its examples can be pasted one after the other.

use std::path::Path;
use std::process::Output;

use crate::{Scratch, text};

fn help(command: &[&str], columns: usize) -> String {
    let mut redial = crate::program(env!("CARGO_BIN_EXE_redial"));
    let redial = redial.args(command).arg("--help").env("COLUMNS", columns.to_string());
    text(&redial.output().unwrap().stdout).to_owned()
}

/// All commands, with their subcommands.
fn commands() -> Vec<Vec<String>> {
    let (mut all, mut next) = (Vec::new(), vec![Vec::new()]);
    while let Some(command) = next.pop() {
        let parts: Vec<&str> = command.iter().map(String::as_str).collect();
        let help = help(&parts, 100);
        let list = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
        let rows = list.lines().take_while(|line| line.starts_with("  "));
        let names = rows
            .filter(|row| !row.starts_with("   "))
            .filter_map(|row| row.split_whitespace().next());
        for name in names.filter(|name| *name != "help") {
            next.push([&command[..], &[name.to_owned()]].concat());
        }
        all.push(command);
    }
    all
}

/// The lines of the examples, of which those that start with # are comments.
fn examples(help: &str) -> Vec<&str> {
    let after = help.split_once("\nExamples:\n").map_or("", |(_, rest)| rest);
    after.lines().take_while(|line| line.starts_with("  ")).map(str::trim).collect()
}

#[test]
fn every_help_fits_the_terminal() {
    for columns in [60, 80] {
        for command in commands() {
            let parts: Vec<&str> = command.iter().map(String::as_str).collect();
            let help = help(&parts, columns);
            // A command that is broken cannot be pasted, so it is at most 80 columns wide and stays whole from there on.
            let (prose, _) = help.split_once("\nExamples:\n").unwrap_or((&help, ""));
            let shown = if columns < 80 { prose } else { &help };
            let wide = shown.lines().find(|line| line.chars().count() > columns);
            assert_eq!(wide, None, "{command:?} in {columns} columns");
        }
    }
}

/// Runs all examples of a command in one shell, in an empty directory.
fn paste(command: &[&str]) -> Output {
    let scratch = Scratch::new("paste");
    let help = help(command, 100);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let script =
        examples(&help).join("\n").replace("9464", &port).replace("0.0.0.0:7575", "0.0.0.0:0");
    let program = Path::new(env!("CARGO_BIN_EXE_redial")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut bash = crate::program("bash");
    bash.args(["-euo", "pipefail", "-c", &script]).current_dir(&scratch.0).env("PATH", path);
    bash.env("XDG_RUNTIME_DIR", &scratch.0).env("HOME", &scratch.0).env_remove("REDIAL_STORE");
    bash.output().unwrap()
}

/// The commands whose examples are long, and have tests of their own that run beside this one.
const LONG: [&str; 4] = ["demo", "doctor", "sim", "up"];

#[track_caller]
fn pasted(command: &[&str]) {
    let output = paste(command);
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{command:?}\n{printed}\n{errors}");
}

#[test]
fn examples_can_be_pasted_one_after_the_other() {
    let mut count = 0;
    for command in commands() {
        let parts: Vec<&str> = command.iter().map(String::as_str).collect();
        if LONG.iter().any(|long| parts.first() == Some(long))
            || examples(&help(&parts, 100)).is_empty()
        {
            continue;
        }
        pasted(&parts);
        count += 1;
    }
    assert!(count > 20, "{count} commands have examples");
}

#[test]
fn examples_of_demo_can_be_pasted() {
    pasted(&["demo"]);
}

#[test]
fn examples_of_doctor_can_be_pasted() {
    pasted(&["doctor"]);
}

#[test]
fn examples_of_sim_can_be_pasted() {
    for command in commands().iter().filter(|command| command.first().is_some_and(|it| it == "sim"))
    {
        pasted(&command.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn examples_of_up_can_be_pasted() {
    pasted(&["up"]);
}

#[test]
fn every_command_has_examples_or_subcommands() {
    for command in commands() {
        let parts: Vec<&str> = command.iter().map(String::as_str).collect();
        let help = help(&parts, 100);
        let is_group = help.contains("\nCommands:\n");
        assert!(is_group || !examples(&help).is_empty(), "{command:?}");
    }
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = crate::redial(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        let script = text(&output.stdout);
        assert!(script.contains("capacity") && script.contains("skip-unknown"), "{shell}");
    }
    // What bash itself says about the script.
    let scratch = Scratch::new("completions");
    let script = scratch.file("redial", crate::redial(&["completions", "bash"]).stdout);
    let test = format!(
        "source {script}; COMP_WORDS=(redial che); COMP_CWORD=1; COMP_LINE='redial che'; _redial redial che redial; echo ${{COMPREPLY[*]}}"
    );
    let output = crate::program("bash").args(["-c", &test]).output().unwrap();
    assert_eq!(text(&output.stdout), "check\n", "{}", text(&output.stderr));

    let page = crate::redial(&["man", "queue", "add"]);
    let page = text(&page.stdout);
    assert!(page.starts_with(".ie") || page.contains(".TH"), "{page}");
    assert!(page.contains("when\\-waiting"), "{page}");
    let directory = scratch.path("man1");
    assert_eq!(crate::redial(&["man", "--output", &directory]).status.code(), Some(0));
    for name in ["redial.1", "redial-sim.1", "redial-sim-bench.1", "redial-queue-add.1"] {
        assert!(Path::new(&directory).join(name).exists(), "{name}");
    }
    let wrong = crate::redial(&["man", "sin"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("no such command"), "{}", text(&wrong.stderr));
}
