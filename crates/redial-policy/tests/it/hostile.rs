//! Hostile texts are refused with a short message, or read within stated bounds.

use redial_policy::file::File;
use redial_policy::tree::{Cursor, MOST_DEPTH, Node, Value};
use redial_policy::{MOST_BYTES, Problem, SourceText};

const MB: usize = 1_000_000;

/// The message of a problem, which must fit on a screen.
fn message(problem: Problem) -> String {
    let text = problem.to_string();
    assert!(text.chars().count() < 600, "{}…", text.chars().take(200).collect::<String>());
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    text
}

#[test]
fn a_hundred_megabytes_are_refused() {
    let problem = SourceText::new("big", vec![b'['; 100 * MB]).unwrap_err();
    assert_eq!(message(problem), "larger than 16 MB: not a config");
    assert!(SourceText::new("fits", vec![b' '; MOST_BYTES]).is_ok());
}

#[test]
fn invalid_utf8_is_refused_with_its_place() {
    let problem = SourceText::new("x", b"a = 1\nb = \"\xff\"\n".to_vec()).unwrap_err();
    assert_eq!(message(problem), "invalid UTF-8 at byte 11, on line 2");
}

/// Patterns that nest, quote or refer back, from which a careless parser would build much more than the text.
const PATTERNS: [&str; 28] = [
    "[",
    "{",
    "\"",
    "'",
    "|",
    "- ",
    "- - -",
    "? ",
    "&a ",
    "!!",
    "\t",
    "#",
    "[[",
    "{a: ",
    "{\"a\":",
    "a: &a *a\n",
    ": ",
    "- [",
    "*a ",
    "%",
    "---\n",
    "|\n ",
    "a:\n - ",
    "\\",
    "[a",
    "\r",
    "a.",
    "a\n",
];

/// A text is refused with a short message, or becomes nodes within the stated depth, no more of them than the text has
/// bytes, with no more bytes in keys and values than the text has.
fn check(text: &str, read: Result<Vec<Node>, Problem>) {
    let documents = match read {
        Ok(documents) => documents,
        Err(problem) => return drop(message(problem)),
    };
    let (mut nodes, mut bytes) = (0, 0);
    let mut rest: Vec<(&Node, usize)> = documents.iter().map(|node| (node, 1)).collect();
    while let Some((node, depth)) = rest.pop() {
        assert!(depth <= MOST_DEPTH);
        nodes += 1;
        match &node.value {
            Value::Text(text) => bytes += text.len(),
            Value::List(list) => rest.extend(list.iter().map(|node| (node, depth + 1))),
            Value::Table(table) => {
                bytes += table.entries().iter().map(|entry| entry.key.len()).sum::<usize>();
                rest.extend(table.entries().iter().map(|entry| (&entry.node, depth + 1)));
            }
            _ => {}
        }
    }
    let start: String = text.chars().take(20).collect();
    assert!(nodes <= text.len() + 1, "{nodes} nodes from {} bytes: {start}", text.len());
    assert!(bytes <= text.len(), "{bytes} bytes from {} bytes: {start}", text.len());
}

#[test]
fn repeated_patterns_are_refused_or_become_no_more_than_the_text() {
    let one = |read: Result<Node, Problem>| read.map(|node| vec![node]);
    for pattern in PATTERNS {
        let text = pattern.repeat(MB / 20 / pattern.len());
        check(&text, Node::yaml(&text));
        check(&text, one(Node::json(&text)));
        check(&text, one(Node::ini(&text)));
        check(&text, one(Node::properties(&text)));
        let in_toml = [format!("a = {text}"), format!("[{text}a]"), format!("{text}a = 1"), text];
        in_toml.iter().for_each(|text| check(text, one(Node::toml(text))));
    }
}

#[test]
fn names_with_many_parts_are_too_deep() {
    let path = "a.".repeat(100_000);
    for text in [format!("{path}a = 1"), format!("[{path}a]"), format!("x = {{ {path}a = 1 }}")] {
        assert_eq!(message(Node::toml(&text).unwrap_err()), "nested too deep");
    }
}

#[test]
fn nested_anchors_are_bounded() {
    let open: String = (0..90).map(|i| format!("&a{i} [")).collect();
    let text = format!("{open}{}{}", "x, ".repeat(20_000), "]".repeat(90));
    assert_eq!(message(Node::yaml(&text).unwrap_err()), "more than 1000000 values with anchors");
}

#[test]
fn large_tables_are_read() {
    let keys: String = (0..20_000).map(|i| format!("k{i}: 1\n  ")).collect();
    let text = format!("a: &a\n  {keys}\nb:\n  <<: *a\n  k{}\n", keys.replace("k", "x"));
    assert!(Node::yaml(&text).unwrap()[0].at(&["b", "k19999"]).is_some());

    let keys: String = (0..20_000).map(|i| format!("k{i} = 1\n")).collect();
    assert_eq!(
        message(File::read(&keys).unwrap_err()).split(';').next(),
        Some("unknown field `k0`")
    );
    let policies: String = (0..10_001).map(|i| format!("[policy.k{i}]\n")).collect();
    assert_eq!(message(File::read(&policies).unwrap_err()), "policy: more than 10000 policies");
}

#[test]
fn inheritance_is_bounded() {
    let codes = "503, ".repeat(100_000);
    let text = format!("[policy.a]\nretry_on = [{codes}]\n[policy.b]\nextends = 'a'");
    assert_eq!(message(File::read(&text).unwrap_err()), "policy.a: more than 2000 values");

    let codes = "503, ".repeat(1_900);
    let mut many = format!("[policy.a]\nretry_on = [{codes}]\n");
    (0..600).for_each(|i| many += &format!("[policy.p{i}]\nextends = 'a'\n"));
    let problem = message(File::read(&many).unwrap_err());
    assert!(problem.ends_with("more than 1000000 values"), "{problem}");

    let mut chain = "[policy.p0]\n".to_owned();
    (1..1_000).for_each(|i| chain += &format!("[policy.p{i}]\nextends = 'p{}'\n", i - 1));
    assert_eq!(File::read(&chain).unwrap().policies.len(), 1_000);
    let cycle = chain.replace("[policy.p0]", "[policy.p0]\nextends = 'p999'");
    assert_eq!(
        message(File::read(&cycle).unwrap_err()),
        "policy.p0.extends: cycle: p0 → p999 → p998 → p997 → p996 → …; \
         let one of these extend a preset, or nothing"
    );
}

#[test]
fn long_names_and_texts_are_shortened() {
    let long = "ö".repeat(100_000);
    for text in [
        format!("\"{long}\" = 1"),
        format!("attempts = \"{long}\""),
        format!("deadline = \"{long}\""),
        format!("extends = \"{long}\""),
        format!("retry_on = [\"{long}\"]"),
        format!("backoff = {{ jitter = \"{long}\" }}"),
        format!("budget = {{ \"{long}\" = {{}} }}"),
        format!("[policy.\"{long}\"]"),
        format!("[policy.a]\n[[route]]\npolicy = \"{long}\""),
        format!("[policy.a]\n\"{long}\".x = 1"),
        format!("[setting]\nslo = \"{long}\"\n[policy.a]"),
        format!("a = 1\n\"{long}\" = 1\n\"{long}\" = 2"),
    ] {
        message(File::read(&text).unwrap_err());
    }
    message(Node::json(&format!("{{\"{long}\": 1, \"{long}\": 2}}")).unwrap_err());
    let node = Node::json(&format!("{{\"{long}\": 1}}")).unwrap();
    let here = Cursor::top(&node).get(&long).unwrap();
    message(here.text().unwrap_err());
    message(Node::yaml(&format!("{long}: 1\n{long}: 2\n")).unwrap_err());
}
