use proptest::prelude::*;
use redial_policy::Problem;
use redial_policy::tree::{Cursor, Node, Value};

/// The text that a node covers.
fn piece<'a>(text: &'a str, node: &Node) -> &'a str {
    &text[node.span.range()]
}

#[test]
fn yaml_nodes_know_their_places() {
    let text = "spec:\n  \"ключ\": ö\n  http:\n  - retries: {attempts: 3, perTryTimeout: 2s}\n    timeout: '5s'\n---\nsecond: 0x10\n";
    let documents = Node::yaml(text).unwrap();
    assert_eq!(documents.len(), 2);
    let top = Cursor::top(&documents[0]);
    let route = top.at(&["spec", "http"]).unwrap().items().next().unwrap();
    let attempts = route.at(&["retries", "attempts"]).unwrap();
    assert_eq!(attempts.path(), "spec.http[0].retries.attempts");
    assert_eq!(piece(text, attempts.node), "3");
    assert_eq!(piece(text, route.get("timeout").unwrap().node), "'5s'");
    assert_eq!(
        attempts.count(4..=9).unwrap_err().message,
        "spec.http[0].retries.attempts: must be at least 4, but is 3"
    );
    assert_eq!(documents[1].get("second").unwrap().value, Value::Integer(16));
}

#[test]
fn json_nodes_know_their_places() {
    let text = "{\"a\": [1, 2.5, \"x\\u00e9\\ud83d\\ude00\\n\", // why\n true, null,], /* b */ \"b\": {\"c\": -1e3}}";
    let node = Node::json(text).unwrap();
    let list = node.get("a").unwrap().list().unwrap();
    assert_eq!(list[2].text(), Some("xé😀\n"));
    assert_eq!(piece(text, &list[1]), "2.5");
    assert_eq!(node.at(&["b", "c"]).unwrap().value, Value::Float(-1000.0));
}

#[test]
fn toml_nodes_know_their_places() {
    let text = "[policy.a]\nattempts = 3\nbackoff = { base = \"1s\" }\n[[route]]\npath = \"/\"\n";
    let node = Node::toml(text).unwrap();
    let base = node.at(&["policy", "a", "backoff", "base"]).unwrap();
    assert_eq!(piece(text, base), "\"1s\"");
    let entry = node.get("policy").unwrap().table().unwrap().entry("a").unwrap();
    assert_eq!(&text[entry.key_span.range()], "a");
}

#[test]
fn duplicate_keys_are_errors() {
    let message = |read: Result<(), Problem>| read.unwrap_err().message;
    assert!(message(Node::yaml("a: 1\na: 2").map(drop)).contains("duplicate key"));
    assert!(message(Node::json("{\"a\": 1, \"a\": 2}").map(drop)).contains("duplicate key"));
    assert!(message(Node::toml("a = 1\na = 2").map(drop)).contains("duplicate"));
}

#[test]
fn aliases_are_expanded_within_bounds() {
    let text = "base: &base {x: 1, y: 2}\nmine: {<<: *base, y: 3}\n";
    let node = &Node::yaml(text).unwrap()[0];
    assert_eq!(node.at(&["mine", "x"]).unwrap().value, Value::Integer(1));
    assert_eq!(node.at(&["mine", "y"]).unwrap().value, Value::Integer(3));

    let mut nested = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for i in 1..30 {
        let before = format!("*a{}, ", i - 1).repeat(10);
        nested.push_str(&format!("a{i}: &a{i} [{before}]\n"));
    }
    let problem = Node::yaml(&nested).unwrap_err();
    assert!(problem.message.contains("values, with aliases expanded"), "{problem}");
}

#[test]
fn deep_nesting_is_an_error() {
    let deep =
        |open: &str, close: &str| format!("{}1{}", open.repeat(200_000), close.repeat(200_000));
    for problem in [
        Node::json(&deep("[", "]")).unwrap_err(),
        Node::json(&deep("{\"a\":", "}")).unwrap_err(),
        Node::yaml(&deep("[", "]")).unwrap_err(),
        Node::yaml(&"- ".repeat(100_000)).unwrap_err(),
        Node::toml(&format!("a = {}", deep("[", "]"))).unwrap_err(),
    ] {
        assert!(problem.span.is_some(), "{problem}");
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Integer),
        (-1e9..1e9).prop_map(Value::Float),
        "\\PC{0,8}|[a-z]{1,5}|[0-9.:ex-]{1,5}|true|~|(\\n| |#|\\t)+".prop_map(Value::Text),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::list),
            proptest::collection::vec(("[a-z.]{1,5}|\\PC{0,4}", inner), 0..5)
                .prop_map(Value::table),
        ]
    })
}

/// The value without its places.
fn bare(node: &Node) -> Value {
    match &node.value {
        Value::List(list) => Value::list(list.iter().map(bare)),
        Value::Table(table) => {
            Value::table(table.entries().iter().map(|entry| (entry.key.clone(), bare(&entry.node))))
        }
        plain => plain.clone(),
    }
}

proptest! {
    #[test]
    fn printed_values_are_read_back(value in values()) {
        let json = value.to_json();
        prop_assert_eq!(bare(&Node::json(&json).unwrap()), value.clone(), "{}", json);
        let yaml = value.to_yaml();
        prop_assert_eq!(bare(&Node::yaml(&yaml).unwrap()[0]), value, "{}", yaml);
    }
}
