//! Whatever a text is, it is refused soon and in a few words.

use redial_policy::file::File;
use redial_policy::tree::{Here, Node};
use redial_policy::{MOST_BYTES, Problem, Source};

const MB: usize = 1_000_000;

/// The message of what is wrong, which fits on a screen.
fn message(problem: Problem) -> String {
    let text = problem.to_string();
    assert!(text.chars().count() < 600, "{}…", text.chars().take(200).collect::<String>());
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    text
}

#[test]
fn a_hundred_megabytes_are_refused_unread() {
    let problem = Source::new("big", vec![b'['; 100 * MB]).unwrap_err();
    assert_eq!(message(problem), "larger than 16 MB, so it is no config");
    assert!(Source::new("fits", vec![b' '; MOST_BYTES]).is_ok());
}

#[test]
fn what_is_not_utf8_is_refused_with_its_place() {
    let problem = Source::new("x", b"a = 1\nb = \"\xff\"\n".to_vec()).unwrap_err();
    assert_eq!(message(problem), "not UTF-8: byte 11, in line 2");
}

/// Signs that nest, quote, or have to be looked back on: a parser that is not careful takes a time that grows with the
/// square of the text, which would be noticed here.
const TRAPS: [&str; 28] = [
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

#[test]
fn repeated_signs_end_soon() {
    for trap in TRAPS {
        let text = trap.repeat(MB / 20 / trap.len());
        let _ = Node::yaml(&text).map_err(message);
        let _ = Node::json(&text).map_err(message);
        let _ = Node::toml(&text).map_err(message);
        let _ = Node::toml(&format!("a = {text}")).map_err(message);
        let _ = Node::toml(&format!("[{text}a]")).map_err(message);
        let _ = Node::toml(&format!("{text}a = 1")).map_err(message);
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
fn anchors_in_anchors_are_bounded() {
    let open: String = (0..90).map(|i| format!("&a{i} [")).collect();
    let text = format!("{open}{}{}", "x, ".repeat(20_000), "]".repeat(90));
    assert_eq!(message(Node::yaml(&text).unwrap_err()), "more than 1000000 values with an anchor");
}

#[test]
fn large_tables_are_read_once() {
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
fn what_is_inherited_is_bounded() {
    let codes = "503, ".repeat(100_000);
    let text = format!("[policy.a]\nretry_on = [{codes}]\n[policy.b]\nextends = 'a'");
    assert_eq!(message(File::read(&text).unwrap_err()), "policy.a: more than 2000 values");

    let codes = "503, ".repeat(1_900);
    let mut heirs = format!("[policy.a]\nretry_on = [{codes}]\n");
    (0..600).for_each(|i| heirs += &format!("[policy.p{i}]\nextends = 'a'\n"));
    let problem = message(File::read(&heirs).unwrap_err());
    assert!(problem.ends_with("more than 1000000 values"), "{problem}");

    let mut chain = "[policy.p0]\n".to_owned();
    (1..1_000).for_each(|i| chain += &format!("[policy.p{i}]\nextends = 'p{}'\n", i - 1));
    assert_eq!(File::read(&chain).unwrap().policies.len(), 1_000);
    let circle = chain.replace("[policy.p0]", "[policy.p0]\nextends = 'p999'");
    assert_eq!(
        message(File::read(&circle).unwrap_err()),
        "policy.p0.extends: it extends itself: p0 → p999 → p998 → p997 → p996 → …; \
         let one of them extend a preset, or nothing"
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
    let here = Here::top(&node).get(&long).unwrap();
    message(here.text().unwrap_err());
    message(Node::yaml(&format!("{long}: 1\n{long}: 2\n")).unwrap_err());
}
