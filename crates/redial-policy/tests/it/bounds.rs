//! Bounds on what is read from a text: the number of configs, routes, hosts and problems, and numbers that mean
//! "unlimited".

use std::fmt::Write as _;

use redial_policy::file::File;
use redial_policy::format::Written;
use redial_policy::{ConfigReading, Format, Inputs, NoteKind, SourceText, suppress};

fn inputs(name: &str, text: &str) -> Inputs {
    let mut inputs = Inputs::new();
    inputs.add(SourceText::new(name, text.as_bytes().to_vec()).unwrap(), None).unwrap();
    inputs
}

fn read(name: &str, text: &str) -> ConfigReading {
    inputs(name, text).read(None)
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
    assert_eq!(problem.message, "more than 10000 retry configs or routes");
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
fn at_most_a_thousand_problems_are_reported() {
    let wrong = repeated(3_000, |i| format!("[profile p{i}]\nmax_attempts = x\n"));
    let problems = read("x.ini", &wrong).problems;
    assert_eq!(problems.len(), 1_001);
    assert_eq!(problems[1_000].1.message, "2000 more problems");
    let unknown =
        repeated(3_000, |i| format!("[profile p{i}]\nmax_attempts = 3\nmax_attempt = 3\n"));
    assert_eq!(read("x.ini", &unknown).findings.len(), 3_000);
}

/// A text is searched for comments once, not once for each document.
#[test]
fn many_documents_can_be_in_one_text() {
    let document = |i| format!("--- {{resilience4j: {{retry: {{instances: {{a{i}: }}}}}}}}\n");
    let inputs = inputs("x.yaml", &repeated(50_000, document));
    assert_eq!(inputs.documents().len(), 50_000);
    assert!(suppress(&inputs, Vec::new()).open.is_empty());
}

#[test]
fn unlimited_attempts_are_clamped() {
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
        let is_clamped = |text: &str| text.starts_with("attempts = 1000000, the most");
        let mut notes = reading.found[0].notes.iter();
        assert!(
            notes.any(|it| it.kind == NoteKind::Approximated && is_clamped(&it.text)),
            "{text}"
        );
    }
}

#[test]
fn omitted_hosts_are_reported() {
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

/// Two applications can use the same name for an instance.
#[test]
fn files_of_config_maps_are_separate() {
    let map = |name, attempts| {
        format!(
            "---\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n  application.yml: |\n    resilience4j.retry:\n      \
             instances.a.maxAttempts: {attempts}\n  application.properties: |\n    \
             resilience4j.retry.instances.b.maxAttempts={attempts}\n"
        )
    };
    let text = format!("{}{}", map("one", 2), map("two", 3));
    let inputs = inputs("x.yaml", &text);
    let reading = inputs.read(Some(Format::Resilience4j));
    let found = reading.found.iter().map(|it| {
        let at = it.places.of("attempts").span.range();
        (it.name.as_str(), it.policy.attempts(), &text[at])
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [("a", 2, "2"), ("b", 2, "2"), ("a", 3, "3"), ("b", 3, "3")]
    );
}

/// So that an imported file can be read again.
#[test]
fn unsupported_routes_match_more_requests() {
    let text = "virtual_hosts:\n- domains: ['']\n  routes:\n  - match: {prefix: '/p.*', headers: [{name: ':method', \
                string_match: {exact: '-------------------------------------------------'}}]}\n    \
                route: {retry_policy: {retry_on: 5xx}}\n";
    let found = &read("x.yaml", text).found[0];
    let [route] = found.routes.as_slice() else { panic!("{:?}", found.routes) };
    assert_eq!((&route.path, &route.host, route.methods.len()), (&None, &None, 0));
    let notes = found.notes.iter().filter(|it| it.text.ends_with("so the route matches more"));
    assert_eq!(notes.count(), 3);
}

/// As printed by `redial presets NAME`.
#[test]
fn a_policy_without_a_name_is_recognised_by_its_fields() {
    let found = &read("/dev/stdin", "# web\n\nattempts = 3\n[backoff]\nbase = '1s'\n").found[0];
    assert_eq!((found.format, found.policy.attempts()), (Format::Redial, 3));
}

#[test]
fn budgets_out_of_range_are_clamped() {
    let profile = |budget: &str| {
        let text = format!(
            "{{apiVersion: linkerd.io/v1alpha2, kind: ServiceProfile, metadata: {{name: a.b.svc.cluster.local}}, \
             spec: {{routes: [{{name: r, isRetryable: true}}], retryBudget: {budget}}}}}"
        );
        read("x.yaml", &text).found.remove(0)
    };
    let long = profile("{ttl: 2m}");
    assert!(
        long.notes.iter().any(|it| it.text == "ttl = 1m: a policy has 1s to 60s"),
        "{:?}",
        long.notes
    );
    assert_eq!(profile("{retryRatio: 0, minRetriesPerSecond: 0}").policy.attempts(), 1);
}

#[test]
fn byte_order_marks_are_removed() {
    let text = "\u{feff}resilience4j.retry.instances.a.maxAttempts=3\n";
    let found = &read("x.properties", text).found[0];
    assert_eq!(found.places.of("attempts").span.start, 43);
}

/// Our runners do not retry unsafe requests, so a config that retries them is a loss.
#[test]
fn every_export_reports_safety() {
    let file = File::read("[policy.a]\nextends = 'web'").unwrap();
    for format in
        Format::ALL.into_iter().filter(|format| *format != Format::Redial && format.is_written())
    {
        let written = format.write(&file).unwrap();
        let (_, notes) = &written.notes[0];
        assert!(notes.iter().any(|it| it.field == "safety"), "{format:?}: {notes:?}");
        let is_cap = |field: &str| ["backoff", "backoff.cap"].iter().any(|it| field.ends_with(it));
        assert!(notes.iter().any(|it| is_cap(&it.field)), "{format:?}: {notes:?}");
    }
}

/// No other system has the budget, the hedges, the stall or the parked calls of the default policy. Hedges of every slow attempt would not
/// replace those of overtaken ones, and no budget would not replace one that retries earn.
#[test]
fn exports_of_the_default_policy_report_what_it_loses() {
    let file = File::read("[policy.a]\nextends = 'standard'").unwrap();
    for format in
        Format::ALL.into_iter().filter(|format| *format != Format::Redial && format.is_written())
    {
        let Written { text, notes } = format.write(&file).unwrap();
        let kind = |field: &str| {
            let note = notes[0].1.iter().find(|note| note.field == field);
            note.map(|note| note.kind).unwrap_or_else(|| panic!("{format:?} {field}: {notes:?}"))
        };
        for field in ["hedge", "stall", "park"] {
            assert_eq!(kind(field), NoteKind::Dropped, "{format:?} {field}");
        }
        assert!(!text.to_ascii_lowercase().contains("hedg"), "{text}");
        let budget = match format {
            Format::Envoy | Format::Istio | Format::Linkerd | Format::GatewayApi => {
                NoteKind::Approximated
            }
            _ => NoteKind::Dropped,
        };
        assert_eq!(kind("budget"), budget, "{format:?}");
    }
    let fixed = "hedge = { after = '1s', overtaken = true }";
    for format in [Format::Grpc, Format::DotNet] {
        let written = format.write(&File::read(fixed).unwrap()).unwrap();
        assert!(!written.text.contains("edging"), "{}", written.text);
    }
}
