//! The pages on the simulator show its current output and input.

use redial_sim::Scenario;

use crate::{redial, text};

fn blocks<'a>(page: &'a str, kind: &'a str) -> impl Iterator<Item = &'a str> {
    page.split("```").skip(1).step_by(2).filter_map(move |block| block.strip_prefix(kind))
}

/// The page shows parts of the output.
#[test]
fn the_page_on_storms_shows_what_the_command_prints() {
    let page = include_str!("../../../../docs/storms.md");
    let trim = |text: &str| {
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        lines.join("\n").replace('\u{a0}', " ")
    };
    let mut count = 0;
    for block in blocks(page, "text\n$ redial ") {
        let (command, shown) = block.split_once('\n').unwrap();
        let args: Vec<_> = command.split(' ').collect();
        let printed = trim(text(&redial(&args).stdout));
        assert!(printed.contains(&trim(shown)), "redial {command}\n{printed}");
        count += 1;
    }
    assert!(count >= 5);
}

#[test]
fn the_page_on_scenarios_shows_one_and_names_every_key() {
    let page = include_str!("../../../../docs/scenarios.md");
    let shown = blocks(page, "toml\n").next().unwrap();
    Scenario::read(shown, &[]).unwrap();
    let tables = [
        "",
        "[clients]",
        "[backend]",
        "[chain]",
        "[outage]",
        "[capacity_loss]",
        "[cold_cache]",
        "[slowdown]",
        "[pause]",
        "[spike]",
        "[restart]",
        "[switched_off]",
    ];
    for table in tables {
        let wrong =
            Scenario::read(&format!("{table}\nno-such-key = 1"), &[]).unwrap_err().to_string();
        let (_, known) = wrong.split_once("known fields: ").unwrap_or_else(|| panic!("{wrong}"));
        for key in known.split(", ") {
            let named = [format!("`{key}`"), format!(".{key}`"), format!("`{key}.")];
            assert!(
                named.iter().any(|name| page.contains(name)),
                "{table} {key} is not on the page"
            );
        }
    }
}
