//! The page on `redial doctor` shows its current output.

use regex_lite::Regex;

use super::endpoint::{metrics, serve};
use super::example::Storm;
use crate::{Scratch, redial, text};

const PAGE: &str = include_str!("../../../../../docs/seeing-a-storm.md");

/// Without the address and the line breaks, which depend on it.
fn plain(text: &str) -> String {
    let text = Regex::new(r"http://[^ ]+/metrics").unwrap().replace_all(text, "URL");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_page_shows_the_output() {
    let mut shown = 0;
    for block in PAGE.split("\n```console ").skip(1) {
        let (head, rest) = block.split_once('\n').unwrap();
        let (policy, phase) = head.split_once(' ').unwrap();
        let (command, rest) = rest.split_once('\n').unwrap();
        let expected = rest.split_once("\n```").unwrap().0;
        let storm = Storm::start(policy, phase);
        let url = serve(vec![metrics(&storm.page()), metrics(&storm.after(200))]);
        let args = command.strip_prefix("$ redial ").unwrap();
        let args = args.replace("http://localhost:9000/metrics", &url).replace("4s", "100ms");
        let output = redial(&args.split(' ').collect::<Vec<_>>());
        let printed = text(&output.stdout);
        let measured = Regex::new("measured for .*").unwrap();
        let printed = measured.replace(printed, "measured for 4 s");
        assert_eq!(plain(&printed), plain(expected));
        assert!(expected.lines().all(|line| line.chars().count() <= 100));
        shown += 1;
    }
    assert_eq!(shown, 2);
}

#[test]
fn the_commands_of_the_symptom_table_work() {
    let scratch = Scratch::new("symptoms");
    let (_, policy) = PAGE.split_once("\n```toml policy.toml\n").unwrap();
    scratch.file("policy.toml", policy.split_once("\n```").unwrap().0);
    let commands = Regex::new(r"`redial ((?:check|explain|sim) [^`]+)`;? ?").unwrap();
    let table = PAGE.lines().filter(|line| line.starts_with("| "));
    let mut run = 0;
    for found in table.flat_map(|line| commands.captures_iter(line).collect::<Vec<_>>()) {
        let args: Vec<_> = found[1].split(' ').collect();
        let mut command = crate::program(env!("CARGO_BIN_EXE_redial"));
        let output = command.args(&args).current_dir(&scratch.0).output().unwrap();
        let said = text(&output.stdout);
        match args[0] {
            "check" => {
                assert!(said.contains("no-jitter") && said.contains("too-many-attempts"), "{said}");
            }
            _ => assert!(output.status.success() && !said.is_empty(), "{args:?}"),
        }
        run += 1;
    }
    assert_eq!(run, 5);
}
