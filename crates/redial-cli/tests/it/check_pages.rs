//! Whoever changes what `redial check` and `redial explain` say sees the pages that show it.

use std::process::Command;

use crate::{Scratch, redial, text};

/// The head and the text of every block of a page.
fn blocks(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("\n```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'))
}

fn trim(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// `$ redial …` in a block prints what the block shows, among the files that the page shows.
#[test]
fn the_page_of_the_payment_service_shows_what_the_commands_print() {
    let page = include_str!("../../../../docs/payment-exercise.md");
    let scratch = Scratch::new("payment-page");
    for (head, shown) in blocks(page) {
        match head {
            "toml good" => drop(scratch.file("payments.toml", shown)),
            "toml bad" => drop(scratch.file("wrong.toml", shown)),
            _ => {}
        }
    }
    let mut explained = 0;
    let mut checked = Vec::new();
    for (_, block) in blocks(page).filter(|(head, _)| *head == "console") {
        let (command, shown) = block.split_once('\n').unwrap();
        let args = command.strip_prefix("$ redial ").unwrap().split(' ');
        let args: Vec<&str> = args.map(|arg| arg.trim_matches('\'')).collect();
        let mut redial = Command::new(env!("CARGO_BIN_EXE_redial"));
        let output = redial.current_dir(&scratch.0).args(&args).output().unwrap();
        let printed = trim(text(&output.stdout));
        match args[..] {
            ["explain", ..] => {
                assert!(printed.contains(&trim(shown)), "{command}\n{printed}");
                explained += 1;
            }
            ["check", file] => {
                assert_eq!(printed, trim(shown), "{command}");
                checked.push((file.to_owned(), output.status.code()));
            }
            _ => panic!("{command}"),
        }
    }
    assert!(explained >= 6, "four questions and the exercise");
    assert_eq!(
        checked,
        [("payments.toml".to_owned(), Some(0)), ("wrong.toml".to_owned(), Some(1))]
    );
}

#[test]
fn the_comment_of_the_page_allows_what_it_is_about() {
    let page = include_str!("../../../../docs/check.md");
    let (_, comment) = blocks(page).find(|(head, _)| *head == "toml").unwrap();
    let scratch = Scratch::new("comment-page");
    let path = scratch.file("policy.toml", format!("[policy.cron]\n{comment}"));
    let output = redial(&["check", &path]);
    assert_eq!(text(&output.stdout), "nothing to say, 1 suppressed in 1 file; 1 policy\n");
}
