//! How much is made of a text: as many configs as a file of ours can say, each of them once, and numbers that stand for
//! "for ever".

use std::fmt::Write as _;

use redial_policy::{Format, NoteKind, Pile, Reading, Source, suppress};

fn pile(name: &str, text: &str) -> Pile {
    let mut pile = Pile::new();
    pile.add(Source::new(name, text.as_bytes().to_vec()).unwrap(), None).unwrap();
    pile
}

fn read(name: &str, text: &str) -> Reading {
    pile(name, text).read(None)
}

fn repeated(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut all, i| {
        let _ = write!(all, "{}", one(i));
        all
    })
}

#[test]
fn configs_are_counted_by_text() {
    let instances = |count| {
        let one = |i| format!("resilience4j.retry.instances.a{i}.maxAttempts=3\n");
        read("x.properties", &repeated(count, one))
    };
    let reading = instances(10_000);
    assert_eq!((reading.found.len(), reading.problems.len()), (10_000, 0));
    let reading = instances(10_001);
    assert_eq!(reading.found.len(), 10_000);
    let [(_, problem)] = reading.problems.as_slice() else { panic!("{:?}", reading.problems) };
    assert_eq!(problem.message, "more than 10000 retry configs, or routes to them");
    assert!(problem.span.is_some());
}

#[test]
fn routes_count_too() {
    let names =
        repeated(10_001, |i| format!("{}{{\"service\": \"s{i}\"}}", if i > 0 { "," } else { "" }));
    let text = format!(
        r#"{{"methodConfig": [{{"name": [{names}], "retryPolicy": {{"maxAttempts": 3, "initialBackoff": "1s",
        "maxBackoff": "2s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}}}]}}"#
    );
    let reading = read("x.json", &text);
    assert_eq!((reading.found.len(), reading.problems.len()), (0, 1));
}

#[test]
fn what_is_wrong_a_thousand_times_is_said_a_thousand_times() {
    let wrong = repeated(3_000, |i| format!("[profile p{i}]\nmax_attempts = x\n"));
    let problems = read("x.ini", &wrong).problems;
    assert_eq!(problems.len(), 1_001);
    assert_eq!(problems[1_000].1.message, "and 2000 more like these");
    let unknown =
        repeated(3_000, |i| format!("[profile p{i}]\nmax_attempts = 3\nmax_attempt = 3\n"));
    assert_eq!(read("x.ini", &unknown).findings.len(), 3_000);
}

/// A text is searched for comments once, and not for each of its documents: 50,000 times 2 MB would take minutes.
#[test]
fn many_documents_are_one_text() {
    let document = |i| format!("--- {{resilience4j: {{retry: {{instances: {{a{i}: }}}}}}}}\n");
    let pile = pile("x.yaml", &repeated(50_000, document));
    assert_eq!(pile.documents().len(), 50_000);
    assert!(suppress(&pile, Vec::new()).open.is_empty());
}

#[test]
fn for_ever_is_a_large_number() {
    let mesh = |kind: &str, spec: &str| {
        format!(
            "{{apiVersion: networking.istio.io/v1, kind: {kind}, metadata: {{name: a}}, spec: {spec}}}"
        )
    };
    let istio = "{hosts: [a], http: [{retries: {attempts: 2147483647}, route: [{destination: {host: a}}]}]}";
    for (name, text) in [
        ("x.properties", "resilience4j.retry.instances.a.maxAttempts = 2147483647".to_owned()),
        ("x.ini", "[default]\nmax_attempts = 2147483647\n".to_owned()),
        ("x.json", r#"{"A": {"Retry": {"MaxRetryAttempts": 2147483647}}}"#.to_owned()),
        ("x.yaml", mesh("VirtualService", istio)),
        ("x.yaml", "{retry_policy: {retry_on: 5xx, num_retries: 4294967295}}".to_owned()), // tidy-allow: the name in Envoy's API
    ] {
        let reading = read(name, &text);
        assert_eq!(reading.problems, [], "{text}");
        assert_eq!(reading.found[0].policy.attempts(), 1_000_000, "{text}");
        let is_said = |text: &str| text.starts_with("attempts = 1000000, the most");
        let mut notes = reading.found[0].notes.iter();
        assert!(notes.any(|it| it.kind == NoteKind::Approximated && is_said(&it.text)), "{text}");
    }
}

#[test]
fn hosts_that_are_left_out_are_said() {
    let hosts = repeated(20, |i| format!("h{i}, "));
    let istio = format!(
        "{{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {{name: a}}, spec: \
         {{hosts: [{hosts}], http: [{{route: [{{destination: {{host: a}}}}]}}]}}}}"
    );
    let gateway = format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: a}}, spec: \
         {{hostnames: [{hosts}], rules: [{{retry: {{codes: [503]}}}}]}}}}"
    );
    let envoy = format!(
        "virtual_hosts: [{{domains: [{hosts}], routes: [{{route: {{retry_policy: {{retry_on: 5xx}}}}}}]}}]"
    );
    for text in [istio, gateway, envoy] {
        let found = &read("x.yaml", &text).found[0];
        assert_eq!(found.routes.len(), 16, "{text}");
        assert!(found.notes.iter().any(|it| it.text == "routes for the first 16 hosts"), "{text}");
    }
}

/// Two applications that happen to call an instance alike.
#[test]
fn files_of_maps_do_not_mix() {
    let map = |name, attempts| {
        format!(
            "---\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n  application.yml: |\n    resilience4j.retry:\n      \
             instances.a.maxAttempts: {attempts}\n  application.properties: |\n    \
             resilience4j.retry.instances.b.maxAttempts={attempts}\n"
        )
    };
    let text = format!("{}{}", map("one", 2), map("two", 3));
    let pile = pile("x.yaml", &text);
    let reading = pile.read(Some(Format::Resilience4j));
    let said = reading.found.iter().map(|it| {
        let at = it.places.of("attempts").span.range();
        (it.name.as_str(), it.policy.attempts(), &text[at])
    });
    assert_eq!(
        said.collect::<Vec<_>>(),
        [("a", 2, "2"), ("b", 2, "2"), ("a", 3, "3"), ("b", 3, "3")]
    );
}
