//! The text format: written samples are read back, and an invalid line is an error.

use std::borrow::Cow;

use proptest::prelude::*;
use redial_cli::exposition::{ErrorKind, LONGEST_LINE, MOST_LABELS, MetricSample, samples};

fn one(line: &str) -> MetricSample<'_> {
    let all: Vec<_> = samples(line).collect::<Result<_, _>>().unwrap();
    let [one] = <[_; 1]>::try_from(all).unwrap();
    one
}

#[test]
fn every_dialect_is_read() {
    let page = "\
# HELP a_total Something with \\n in it.
# TYPE a_total counter
a_total 3
  a_total{x=\"1\"}\t4 1700000000000
a_total { x = \"2\" , y=\"}\" , } +Inf
b_bucket{le=\"0.5\"} 17 # {trace_id=\"KOO5S4vxi0o\"} 0.67
b_bucket{le=\"1\"} 17 1.5 # {} 0.67 1520879607.789
c:d NaN
{\"e.f\",x=\"1\"} 1e3
{\"g\"} -.5
h{\"x.y\"=\"z\"} 7\r

# EOF
";
    let all: Vec<_> = samples(page).map(Result::unwrap).collect();
    let names: Vec<_> = all.iter().map(|sample| sample.name.as_ref()).collect();
    assert_eq!(
        names,
        ["a_total", "a_total", "a_total", "b_bucket", "b_bucket", "c:d", "e.f", "g", "h"]
    );
    let values: Vec<_> = all.iter().map(|sample| sample.value).collect();
    assert_eq!(values[..5], [3.0, 4.0, f64::INFINITY, 17.0, 17.0]);
    assert!(values[5].is_nan());
    assert_eq!(values[6..], [1000.0, -0.5, 7.0]);
    assert_eq!((all[2].label("x"), all[2].label("y")), (Some("2"), Some("}")));
    assert_eq!((all[3].label("le"), all[3].label("trace_id")), (Some("0.5"), None));
    assert_eq!((all[6].label("x"), all[8].label("x.y")), (Some("1"), Some("z")));
}

#[test]
fn escapes_are_undone() {
    let sample = one(r#"a{x="\\n\n\"ü"} 1"#);
    assert_eq!(sample.label("x"), Some("\\n\n\"ü"));
    assert!(matches!(one(r#"a{x="plain"} 1"#).labels[0].1, Cow::Borrowed("plain")));
}

#[test]
fn an_invalid_line_is_named() {
    let long = format!("a {}", "1".repeat(LONGEST_LINE));
    let many: String = (0..=MOST_LABELS).map(|n| format!("l{n}=\"\",")).collect();
    let many = format!("a{{{many}}} 1");
    for (line, kind) in [
        ("<html>", ErrorKind::Name),
        ("9a 1", ErrorKind::Name),
        ("{x=\"1\"} 1", ErrorKind::Name),
        ("{\"a\" x=\"1\"} 1", ErrorKind::Name),
        ("ä 1", ErrorKind::Name),
        ("a", ErrorKind::Value),
        ("a{} one", ErrorKind::Value),
        ("a{x=\"1\"", ErrorKind::Label),
        ("a{x} 1", ErrorKind::Label),
        ("a{x=1} 1", ErrorKind::Label),
        ("a{x=\"1} 1", ErrorKind::Label),
        ("a{x=\"1\" y=\"2\"} 1", ErrorKind::Label),
        ("a{=\"1\"} 1", ErrorKind::Label),
        ("a{x=\"\\t\"} 1", ErrorKind::Escape),
        ("a{x=\"\\", ErrorKind::Escape),
        ("a 1 tomorrow", ErrorKind::Rest),
        ("a 1 2 3", ErrorKind::Rest),
        (&long, ErrorKind::Long),
        (&many, ErrorKind::Labels),
    ] {
        let page = format!("ok 1\n\n{line}\nlast 2\n");
        let all: Vec<_> = samples(&page).collect();
        assert_eq!(all.len(), 3, "the lines around it are read: {line:.40}");
        let wrong = all[1].as_ref().expect_err(line);
        assert_eq!((wrong.line, wrong.kind), (3, kind), "{line:.40}");
        assert!(wrong.to_string().starts_with("line 3 "), "{wrong}");
        assert!(wrong.to_string().len() < 200, "{wrong}");
    }
}

#[test]
fn the_longest_line_and_the_most_labels_are_read() {
    let line = format!("a{{x=\"{}\"}} 1", "y".repeat(LONGEST_LINE - "a{x=\"\"} 1".len()));
    assert_eq!(line.len(), LONGEST_LINE);
    assert_eq!(one(&line).value, 1.0);
    let labels: String = (0..MOST_LABELS).map(|n| format!("l{n}=\"\",")).collect();
    assert_eq!(one(&format!("a{{{labels}}} 1")).labels.len(), MOST_LABELS);
}

fn written(name: &str, labels: &[(String, String)], value: f64) -> String {
    let escape = |text: &str| text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let labels: Vec<_> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
    format!("{name}{{{}}} {value}", labels.join(","))
}

proptest! {
    #[test]
    fn written_samples_are_read_back(
        name in "[a-zA-Z_:][a-zA-Z0-9_:]{0,20}",
        labels in prop::collection::vec(("[a-zA-Z_][a-zA-Z0-9_]{0,8}", r"[^\r]{0,20}"), 0..8),
        value in prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::INFINITE,
    ) {
        let line = written(&name, &labels, value);
        let sample = one(&line);
        prop_assert_eq!(&sample.name, &name);
        prop_assert_eq!(sample.value, value);
        let read: Vec<_> =
            sample.labels.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        prop_assert_eq!(read, labels);
    }

    #[test]
    fn any_text_is_read_or_an_error(page in r#"([ -~\n]|[a{}="\\,# \n1]){0,200}"#) {
        let lines = page.lines().count();
        prop_assert!(samples(&page).count() <= lines);
        for wrong in samples(&page).filter_map(Result::err) {
            prop_assert!((1..=lines).contains(&wrong.line));
        }
    }
}
