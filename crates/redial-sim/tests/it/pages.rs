//! The examples of the page on scenarios run.

use redial_policy::tree::{Node, Table, Value};
use redial_sim::Scenario;

use crate::helpers::once;

/// Sets the keys of the tables of `part` in `whole`.
fn set(whole: &mut Table, part: &Table) {
    for entry in part.entries() {
        match (&mut whole.entry_or_table(&entry.key).value, &entry.node.value) {
            (Value::Table(old), Value::Table(new)) => {
                new.entries().iter().for_each(|entry| old.set(entry.clone()));
            }
            (old, new) => *old = new.clone(),
        }
    }
}

#[test]
fn every_example_runs() {
    let page = include_str!("../../../../docs/scenarios.md");
    let blocks = page.split("```").skip(1).step_by(2);
    let mut examples = blocks.filter_map(|it| it.strip_prefix("toml\n")).map(|example| {
        let node = Node::toml(example).unwrap_or_else(|wrong| panic!("{wrong}\n{example}"));
        node.table().unwrap().clone()
    });
    let whole = examples.next().unwrap();
    let parts: Vec<Table> = examples.collect();
    assert!(parts.len() >= 3);
    for part in std::iter::once(Table::default()).chain(parts) {
        let mut example = whole.clone();
        set(&mut example, &part);
        let lines = example.entries().iter();
        let text: String =
            lines.map(|it| format!("{} = {}\n", it.key, it.node.value.to_toml())).collect();
        let scenario = Scenario::read(&text, &[]).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
        for policy in &scenario.policies {
            assert!(once(&scenario, policy, 1).calls > 10, "{text}");
        }
    }
}
