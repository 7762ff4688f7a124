//! The pages on `redial queue` and `redial dlq` show the current output: every command of them runs, in
//! order.

use regex_lite::Regex;

use super::Lab;
use crate::text;

/// Removes what differs between runs: times, keys, and the widths of their columns.
fn plain(text: &str) -> Vec<String> {
    let words = [
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "KEY"),
        (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME"),
        (r"\b\d+(\.\d+)? (ns|µs|ms|s|min)\b", "DURATION"),
        (r" +", " "),
    ];
    let line = |line: &str| {
        words.iter().fold(line.trim_end().to_owned(), |line, (pattern, word)| {
            Regex::new(pattern).unwrap().replace_all(&line, *word).into_owned()
        })
    };
    text.lines().map(line).collect()
}

/// Runs the commands of a page, and returns their number.
fn run(page: &str) -> usize {
    let lab = Lab::new();
    let mut commands = 0;
    for block in page.split("\n```").skip(1).step_by(2) {
        let (head, body) = block.split_once('\n').unwrap();
        if let Some(name) = head.strip_prefix("toml ") {
            lab.scratch.file(name, body);
            continue;
        }
        assert_eq!(head, "console");
        for step in body.strip_prefix("$ ").unwrap().split("\n$ ") {
            let (command, shown) = step.split_once('\n').unwrap_or((step, ""));
            let output = lab.shell(command).output().unwrap();
            assert_eq!(plain(text(&output.stdout)), plain(shown), "{command}");
            commands += 1;
        }
    }
    assert_eq!(commands, page.matches("\n$ ").count());
    commands
}

#[test]
fn the_page_on_dead_letters_shows_the_output() {
    let page = include_str!("../../../../../docs/dead-letters.md");
    assert!(run(page) >= 12);
    for name in ["ls", "show", "edit", "redrive", "purge"] {
        assert!(page.contains(&format!("$ redial dlq {name}")), "{name}");
    }
}

#[test]
fn the_page_on_queues_shows_the_output() {
    assert!(run(include_str!("../../../../../docs/queue.md")) >= 11);
}
