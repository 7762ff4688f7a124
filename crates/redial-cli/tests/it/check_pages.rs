//! The pages on `redial check` and `redial explain` show their current output.

use serde_json::Value;

use crate::{Scratch, redial, text};

/// The head and the text of every code block of a page.
fn blocks(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("\n```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'))
}

fn trim(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The files that a page shows.
fn files(page: &str, directory: &str) -> Scratch {
    let scratch = Scratch::new(directory);
    for (head, shown) in blocks(page) {
        let name = match head {
            "toml good" => "payments.toml",
            "toml bad" => "wrong.toml",
            _ => head.strip_prefix("toml ").unwrap_or_default(),
        };
        if !name.is_empty() {
            scratch.file(name, shown);
        }
    }
    scratch
}

/// Runs `$ redial …` of each block and compares the output; of `redial explain` blocks show a part. Returns the commands.
fn run(page: &str, scratch: &Scratch) -> Vec<(String, Option<i32>)> {
    let mut all = Vec::new();
    for (_, block) in blocks(page).filter(|(head, _)| *head == "console") {
        let (command, shown) = block.split_once('\n').unwrap();
        let args = command.strip_prefix("$ redial ").unwrap().split(' ');
        let args: Vec<&str> = args.map(|arg| arg.trim_matches('\'')).collect();
        let mut redial = crate::program(env!("CARGO_BIN_EXE_redial"));
        let output = redial.current_dir(&scratch.0).args(&args).output().unwrap();
        let (printed, shown) = (trim(text(&output.stdout)), trim(shown));
        let is_part = args[0] == "explain" && printed.contains(&shown);
        assert!(is_part || printed == shown, "{command}\n{printed}");
        all.push((args[..2].join(" "), output.status.code()));
    }
    all
}

#[test]
fn the_page_of_the_payment_service() {
    let page = include_str!("../../../../docs/payment-exercise.md");
    let mut run = run(page, &files(page, "payment-page"));
    run.retain(|(command, _)| command != "explain --policy");
    let checked = [("check payments.toml", 0), ("check --rubric", 0)];
    assert_eq!(run, checked.map(|(command, code)| (command.to_owned(), Some(code))));
}

#[test]
fn the_page_of_the_command() {
    let page = include_str!("../../../../docs/check.md");
    let scratch = files(page, "check-page");
    assert_eq!(run(page, &scratch).len(), 2);
    let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
    command.current_dir(&scratch.0).args(["check", "retry.toml", "--format", "json"]);
    let mut printed: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let (_, shown) = blocks(page).find(|(head, _)| *head == "json").unwrap();
    let mut shown: Value = serde_json::from_str(shown).unwrap();
    for answer in [&mut printed, &mut shown] {
        answer["problems"].take();
        assert!(answer["findings"][0]["message"].take().is_string());
        assert!(answer["findings"][0]["help"].take().is_string());
    }
    assert_eq!(printed, shown);
}

#[test]
fn the_comment_of_the_page_suppresses_its_finding() {
    let page = include_str!("../../../../docs/check.md");
    let (_, comment) = blocks(page).find(|(head, _)| *head == "toml").unwrap();
    let scratch = Scratch::new("comment-page");
    let path = scratch.file("policy.toml", format!("[policy.cron]\n{comment}"));
    let output = redial(&["check", &path]);
    assert_eq!(text(&output.stdout), "no findings, 1 suppressed in 1 file; 1 policy\n");
}
