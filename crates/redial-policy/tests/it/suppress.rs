//! Comments that suppress findings.

use redial_policy::rules::Rule;
use redial_policy::rules::schedule::{NO_JITTER, TOO_MANY_ATTEMPTS};
use redial_policy::{Finding, Format, Inputs, Place, SourceId, SourceText, TextSpan, suppress};

/// A finding at the text `at`, in a config that starts at the text `policy`.
fn finding(text: &str, rule: &'static Rule, at: &str, policy: &str) -> Finding {
    let place = |piece: &str| {
        let start = text.find(piece).unwrap();
        Place { source: SourceId(0), span: TextSpan::new(start..start + piece.len()) }
    };
    let (message, help) = ("a message".to_owned(), String::new());
    let severity = rule.severity;
    Finding { rule, severity, place: place(at), policy: place(policy), message, help, fix: None }
}

/// The rules that are left of `no-jitter` at `JITTER` and `too-many-attempts` at `ATTEMPTS`, in a config that starts at
/// `BEGIN`.
#[track_caller]
fn check(name: &str, text: &str, open: &[&str]) {
    let mut inputs = Inputs::new();
    let source = SourceText::new(name, text.as_bytes().to_vec()).unwrap();
    let asked = if name.ends_with("toml") { Format::Redial } else { Format::Envoy };
    assert_eq!(inputs.add(source, Some(asked)).unwrap(), 1);
    let findings = vec![
        finding(text, &NO_JITTER, "JITTER", "BEGIN"),
        finding(text, &TOO_MANY_ATTEMPTS, "ATTEMPTS", "BEGIN"),
    ];
    let suppressed = suppress(&inputs, findings);
    let left: Vec<&str> = suppressed.open.iter().map(|finding| finding.rule.name).collect();
    assert_eq!(left, open, "{text}");
    assert!(suppressed.allowed.iter().all(|(_, reason)| reason == "of a reason"));
}

const BOTH: &[&str] = &["no-jitter", "too-many-attempts"];
const JITTER_ONLY: &[&str] = &["no-jitter"];
const ATTEMPTS_ONLY: &[&str] = &["too-many-attempts"];

#[test]
fn comments_in_yaml_suppress_findings() {
    let check = |text: &str, open| check("a.yaml", text, open);
    check("BEGIN: 1\nJITTER: 1\nATTEMPTS: 1\n", BOTH);
    check(
        "BEGIN: 1\nJITTER: 1 # redial: allow no-jitter because of a reason\nATTEMPTS: 1\n",
        ATTEMPTS_ONLY,
    );
    check(
        "BEGIN: 1\n# redial: allow no-jitter because of a reason\nJITTER: 1\nATTEMPTS: 1\n",
        ATTEMPTS_ONLY,
    );
    check(
        "BEGIN: 1\n# redial: allow no-jitter because of a reason\n# more\nJITTER: 1\nATTEMPTS: 1\n",
        ATTEMPTS_ONLY,
    );
    check(
        "# redial: allow no-jitter, too-many-attempts because of a reason\nBEGIN: 1\nJITTER: 1\nATTEMPTS: 1\n",
        &[],
    );
    check(
        "BEGIN: 1 # redial: allow too-many-attempts because of a reason\nJITTER: 1\nATTEMPTS: 1\n",
        JITTER_ONLY,
    );
    // A block starts on the line of its name.
    for name in [
        "# redial: allow no-jitter because of a reason\nretries:\n",
        "retries: # redial: allow no-jitter because of a reason\n",
    ] {
        check(&format!("{name}  BEGIN: 1\n  JITTER: 1\n  ATTEMPTS: 1\n"), ATTEMPTS_ONLY);
        let deeper = format!("{name}  a:\n    BEGIN: 1\n    JITTER: 1\n    ATTEMPTS: 1\n");
        check(&deeper, &["unused-suppression", "no-jitter", "too-many-attempts"]);
    }
    // A quote inside a word does not open a string, and a comment needs a blank before it.
    check(
        "BEGIN: it's # redial: allow no-jitter because of a reason\nJITTER: 1\nATTEMPTS: 1\n",
        ATTEMPTS_ONLY,
    );
    check("BEGIN: 1\nJITTER: a#redial:allow no-jitter because of a reason\nATTEMPTS: 1\n", BOTH);
}

#[test]
fn strings_are_not_comments() {
    let yaml = |text, open| check("a.yaml", text, open);
    yaml(
        "BEGIN: 1\nJITTER: \"\\\" # redial: allow no-jitter because of a reason\"\nATTEMPTS: 1\n",
        BOTH,
    );
    yaml(
        "BEGIN: 1\nJITTER: '\n # redial: allow no-jitter because of a reason'\nATTEMPTS: 1\n",
        BOTH,
    );
    yaml(
        "BEGIN: 1\na: |\n  # redial: allow no-jitter because of a reason\nJITTER: 1\nATTEMPTS: 1\n",
        BOTH,
    );
    yaml(
        "BEGIN: 1\na: >-2 # why\n\n   # redial: allow no-jitter because of a reason\nJITTER: 1\nATTEMPTS: 1\n",
        BOTH,
    );
    yaml(
        "BEGIN:\n- a: |\n    x\n  # redial: allow no-jitter because of a reason\n  JITTER: 1\nATTEMPTS: 1\n",
        ATTEMPTS_ONLY,
    );
    yaml(
        "BEGIN:\n- |\n  # redial: allow no-jitter because of a reason\n- JITTER\n- ATTEMPTS\n",
        BOTH,
    );
    yaml(
        "BEGIN: a | b # redial: allow no-jitter because of a reason\nJITTER: 1\nATTEMPTS: 1\n",
        ATTEMPTS_ONLY,
    );

    let toml = |text, open| check("a.toml", text, open);
    toml(
        "BEGIN = 1\nJITTER = 'a' # redial: allow no-jitter because of a reason\nATTEMPTS = 1\n",
        ATTEMPTS_ONLY,
    );
    toml(
        "BEGIN = 1\nJITTER = 'a # redial: allow no-jitter because of a reason'\nATTEMPTS = 1\n",
        BOTH,
    );
    toml(
        "BEGIN = '''\n# redial: allow no-jitter because of a reason\n'''\nJITTER = 1\nATTEMPTS = 1\n",
        BOTH,
    );
    toml(
        "BEGIN = \"\"\"\n\\\"\"\" # redial: allow no-jitter because of a reason\n\"\"\"\nJITTER = 1\nATTEMPTS = 1\n",
        BOTH,
    );

    let json = |text, open| check("a.json", text, open);
    json(
        "{\"BEGIN\": 1,\n// redial: allow no-jitter because of a reason\n\"JITTER\": 1, \"ATTEMPTS\": 1}",
        ATTEMPTS_ONLY,
    );
    json(
        "{\"BEGIN\": 1,\n/* redial: allow no-jitter\n because of a reason */\n\"JITTER\": 1, \"ATTEMPTS\": 1}",
        ATTEMPTS_ONLY,
    );
    json(
        "{\"BEGIN\": 1,\n/* redial: allow no-jitter because of a reason */\n\"JITTER\": 1, \"ATTEMPTS\": 1}",
        ATTEMPTS_ONLY,
    );
    json(
        "{\"BEGIN\": \"// redial: allow no-jitter because of a reason\",\n\"JITTER\": 1, \"ATTEMPTS\": 1}",
        BOTH,
    );
}

#[test]
fn in_ini_and_properties() {
    let ini = |text, open| check("a.ini", text, open);
    ini(
        "BEGIN=1\nJITTER=1 # redial: allow no-jitter because of a reason\nATTEMPTS=1\n",
        ATTEMPTS_ONLY,
    );
    ini(
        "BEGIN=1\n; redial: allow no-jitter because of a reason\nJITTER=1\nATTEMPTS=1\n",
        ATTEMPTS_ONLY,
    );
    let properties = |text, open| check("a.properties", text, open);
    properties(
        "BEGIN=1\n! redial: allow no-jitter because of a reason\nJITTER=1\nATTEMPTS=1\n",
        ATTEMPTS_ONLY,
    );
    properties(
        "BEGIN=1\nJITTER=1 # redial: allow no-jitter because of a reason\nATTEMPTS=1\n",
        BOTH,
    );
}

#[test]
fn invalid_comments_are_findings() {
    let check = |comment: &str, open: &[&str]| {
        check("a.toml", &format!("BEGIN = 1\n# {comment}\nJITTER = 1\nATTEMPTS = 1\n"), open);
    };
    check(
        "redial: allow no-jitter",
        &["suppression-without-reason", "no-jitter", "too-many-attempts"],
    );
    check(
        "redial: allow no-jitter because",
        &["suppression-without-reason", "no-jitter", "too-many-attempts"],
    );
    check(
        "redial: allow no-jitter because  ",
        &["suppression-without-reason", "no-jitter", "too-many-attempts"],
    );
    check(
        "redial: allow no-jiter because of a reason",
        &["unknown-rule", "no-jitter", "too-many-attempts"],
    );
    check(
        "redial: allow no-budget because of a reason",
        &["unused-suppression", "no-jitter", "too-many-attempts"],
    );
    check("redial: see the wiki", BOTH);
}
