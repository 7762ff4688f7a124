//! The examples of the page on scenarios run.

use redial_sim::Scenario;
use toml::{Table, Value};

use crate::helpers::once;

/// Sets the keys of the tables of `part` in `whole`.
fn set(whole: &mut Table, part: Table) {
    for (key, value) in part {
        match (whole.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => old.extend(new),
            (_, value) => drop(whole.insert(key, value)),
        }
    }
}

#[test]
fn every_example_runs() {
    let page = include_str!("../../../../docs/scenarios.md");
    let blocks = page.split("```").skip(1).step_by(2);
    let mut examples = blocks.filter_map(|it| it.strip_prefix("toml\n")).map(|example| {
        example.parse::<Table>().unwrap_or_else(|wrong| panic!("{wrong}\n{example}"))
    });
    let whole = examples.next().unwrap();
    let parts: Vec<Table> = examples.collect();
    assert!(parts.len() >= 3);
    for part in std::iter::once(Table::new()).chain(parts) {
        let mut example = whole.clone();
        set(&mut example, part);
        let text = example.to_string();
        let scenario = Scenario::read(&text, &[]).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
        for policy in &scenario.policies {
            assert!(once(&scenario, policy, 1).calls > 10, "{text}");
        }
    }
}
