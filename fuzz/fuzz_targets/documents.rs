//! Any text, as TOML, YAML and JSON: it is a tree whose nodes are in the text and that prints back to itself, or it is an
//! error that points into the text. A directory of such texts is read without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use redial_policy::tree::{Node, Value};
use redial_policy::{Pile, Problem, Source, rules};

fuzz_target!(|input: &[u8]| {
    let Ok(source) = Source::new("x", input.to_vec()) else { return };
    let text = source.text();
    let yaml = Node::yaml(text).inspect_err(|problem| fits(problem, text)).unwrap_or_default();
    for node in yaml {
        check(&node, text);
        let printed = bare(&node).to_yaml();
        let again = Node::yaml(&printed).unwrap_or_else(|problem| panic!("{problem}: {printed}"));
        assert_eq!(bare(&again[0]), bare(&node), "{printed}");
    }
    if let Ok(node) = Node::json(text).inspect_err(|problem| fits(problem, text)) {
        check(&node, text);
        let printed = bare(&node).to_json();
        let again = Node::json(&printed).unwrap_or_else(|problem| panic!("{problem}: {printed}"));
        assert_eq!(bare(&again), bare(&node), "{printed}");
    }
    if let Ok(node) = Node::toml(text).inspect_err(|problem| fits(problem, text)) {
        check(&node, text);
        let printed = format!("x = {}", bare(&node).to_toml());
        let again = Node::toml(&printed).unwrap_or_else(|problem| panic!("{problem}: {printed}"));
        // NaN is not what it is.
        let again = bare(again.get("x").expect("it was printed"));
        assert_eq!(format!("{again:?}"), format!("{:?}", bare(&node)), "{printed}");
    }
    for name in ["x.toml", "x.yaml", "x.json"] {
        let mut pile = Pile::new();
        let Ok(source) = Source::new(name, input.to_vec()) else { return };
        if pile.add(source, None).is_ok() {
            let reading = pile.read(None);
            rules::review(&reading.found);
        }
    }
});

fn fits(problem: &Problem, text: &str) {
    assert!(problem.span.is_none_or(|span| text.get(span.range()).is_some()), "{problem:?}");
    assert!(problem.to_string().chars().count() < 2000);
}

/// Every node is a piece of the text.
fn check(node: &Node, text: &str) {
    assert!(text.get(node.span.range()).is_some(), "{node:?}");
    match &node.value {
        Value::List(list) => list.iter().for_each(|node| check(node, text)),
        Value::Table(table) => table.entries().iter().for_each(|entry| {
            assert!(text.get(entry.key_span.range()).is_some(), "{entry:?}");
            check(&entry.node, text);
        }),
        _ => {}
    }
}

/// Without places.
fn bare(node: &Node) -> Value {
    match &node.value {
        Value::List(list) => Value::list(list.iter().map(bare)),
        Value::Table(table) => Value::table(
            table.entries().iter().map(|entry| (entry.key.as_str(), bare(&entry.node))),
        ),
        plain => plain.clone(),
    }
}
