//! How much is made of a text: as many configs as a file of ours can say, each of them once, and numbers that stand for
//! "for ever".

use std::fmt::Write as _;

use redial_policy::file::File;
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

/// What is imported is a file that can be read again.
#[test]
fn routes_that_we_cannot_say_are_wider() {
    let text = "virtual_hosts:\n- domains: ['']\n  routes:\n  - match: {prefix: '/p.*', headers: [{name: ':method', \
                string_match: {exact: '-------------------------------------------------'}}]}\n    \
                route: {retry_policy: {retry_on: 5xx}}\n";
    let found = &read("x.yaml", text).found[0];
    let [route] = found.routes.as_slice() else { panic!("{:?}", found.routes) };
    assert_eq!((&route.path, &route.host, route.methods.len()), (&None, &None, 0));
    let said = found.notes.iter().filter(|it| it.text.ends_with("so the route is wider here"));
    assert_eq!(said.count(), 3);
}

/// What `redial presets NAME` prints, in a pipe.
#[test]
fn a_policy_without_a_name_is_known_by_its_fields() {
    let found = &read("/dev/stdin", "# web\n\nattempts = 3\n[backoff]\nbase = '1s'\n").found[0];
    assert_eq!((found.format, found.policy.attempts()), (Format::Redial, 3));
}

#[test]
fn a_profile_with_a_budget_that_we_cannot_say_is_read() {
    let profile = |budget: &str| {
        let text = format!(
            "{{apiVersion: linkerd.io/v1alpha2, kind: ServiceProfile, metadata: {{name: a.b.svc.cluster.local}}, \
             spec: {{routes: [{{name: r, isRetryable: true}}], retryBudget: {budget}}}}}"
        );
        read("x.yaml", &text).found.remove(0)
    };
    let long = profile("{ttl: 2m}");
    assert!(
        long.notes.iter().any(|it| it.text == "ttl = 1m: we know 1s to 60s"),
        "{:?}",
        long.notes
    );
    assert_eq!(profile("{retryRatio: 0, minRetriesPerSecond: 0}").policy.attempts(), 1);
}

#[test]
fn the_mark_before_a_text_is_no_part_of_it() {
    let text = "\u{feff}resilience4j.retry.instances.a.maxAttempts=3\n";
    let found = &read("x.properties", text).found[0];
    assert_eq!(found.places.of("attempts").span.start, 43);
}

/// A runner of ours refuses to repeat what is not safe to repeat, so a config that does not is a loss.
#[test]
fn every_export_says_what_becomes_of_safety() {
    let file = File::read("[policy.a]\nextends = 'web'").unwrap();
    for format in Format::ALL.into_iter().filter(|format| *format != Format::Redial) {
        let written = format.write(&file).unwrap();
        let (_, notes) = &written.notes[0];
        assert!(notes.iter().any(|it| it.field == "safety"), "{format:?}: {notes:?}");
        let is_cap = |field: &str| ["backoff", "backoff.cap"].iter().any(|it| field.ends_with(it));
        assert!(notes.iter().any(|it| is_cap(&it.field)), "{format:?}: {notes:?}");
    }
}
