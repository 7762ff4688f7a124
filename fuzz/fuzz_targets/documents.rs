//! Any text in every language: it becomes a tree that has its places in the text and is printed back to itself, or an
//! error that points into the text. The configs in it are reviewed, exported to every format and read again, without a
//! panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use redial_policy::file::{File, Named, Route};
use redial_policy::tree::{Node, Value};
use redial_policy::{Format, Inputs, Problem, SourceText, rules, suppress};

fuzz_target!(|input: &[u8]| {
    let Ok(source) = SourceText::new("x", input.to_vec()) else { return };
    let text = source.text();
    trees(text);
    let names = ["x.toml", "x.yaml", "x.json", "x.ini", "x.env", "x.properties", "x"];
    for name in names {
        let Some(inputs) = inputs(name, text, None) else { continue };
        review(&inputs, None);
    }
    for format in Format::ALL {
        let Some(inputs) = inputs("x", text, Some(format)) else { continue };
        for written in review(&inputs, Some(format)) {
            export(&written);
        }
    }
});

fn trees(text: &str) {
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
        // NaN is not equal to itself.
        let again = bare(again.get("x").expect("it was printed"));
        assert_eq!(format!("{again:?}"), format!("{:?}", bare(&node)), "{printed}");
    }
    for flat in [Node::ini(text), Node::properties(text)] {
        match flat {
            Ok(node) => check(&node, text),
            Err(problem) => fits(&problem, text),
        }
    }
}

fn inputs(name: &str, text: &str, asked: Option<Format>) -> Option<Inputs> {
    let mut inputs = Inputs::new();
    let source = SourceText::new(name, text.as_bytes().to_vec()).ok()?;
    match inputs.add(source, asked) {
        Ok(added) => (added > 0).then_some(inputs),
        Err((_, problem)) => {
            fits(&problem, text);
            None
        }
    }
}

/// The configs that are found, as policy files; every place is in the text.
fn review(inputs: &Inputs, asked: Option<Format>) -> Vec<File> {
    let reading = inputs.read(asked);
    let mut findings = rules::review(&reading.found);
    findings.extend(reading.findings);
    for finding in &findings {
        let text = inputs.source(finding.place.source).text();
        assert!(text.get(finding.place.span.range()).is_some(), "{finding:?}");
    }
    for (source, problem) in &reading.problems {
        fits(problem, inputs.source(*source).text());
    }
    suppress(inputs, findings);
    let files = reading.found.into_iter().take(3).map(|found| {
        let (policy, setting) = (found.policy, found.setting);
        let named = Named { name: "x".to_owned(), policy, setting };
        let routes = found.routes.into_iter().take(3);
        let routes = routes.map(|route| Route { policy: "x".to_owned(), ..route }).collect();
        File { policies: vec![named], routes, ..File::default() }
    });
    files.collect()
}

/// Exports a file to every format, and reads it again.
fn export(file: &File) {
    for format in Format::ALL {
        let Ok(written) = format.write(file) else { continue };
        let again = inputs("x", &written.text, Some(format)).unwrap_or_else(|| {
            panic!("{format:?} does not recognise its own export: {}", written.text)
        });
        let reading = again.read(Some(format));
        assert!(
            reading.problems.is_empty(),
            "{format:?}: {:?}\n{}",
            reading.problems,
            written.text
        );
    }
}

fn fits(problem: &Problem, text: &str) {
    assert!(problem.span.is_none_or(|span| text.get(span.range()).is_some()), "{problem:?}");
    assert!(problem.to_string().chars().count() < 2000);
}

/// Every node is within the text.
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

/// The value without its places.
fn bare(node: &Node) -> Value {
    match &node.value {
        Value::List(list) => Value::list(list.iter().map(bare)),
        Value::Table(table) => Value::table(
            table.entries().iter().map(|entry| (entry.key.as_str(), bare(&entry.node))),
        ),
        plain => plain.clone(),
    }
}
