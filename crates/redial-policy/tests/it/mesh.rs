//! Golden files of what is read from mesh configs: policies, routes, notes, findings and problems.

use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use redial_core::Draft;
use redial_policy::{Format, Inputs, Place, SourceText};

/// Reads files of `tests/data` and compares the report with the file beside the first. `REDIAL_BLESS=1` updates it.
fn check(format: Format, files: &[&str]) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut inputs = Inputs::new();
    for file in files {
        let bytes = std::fs::read(data.join(file)).unwrap();
        inputs.add(SourceText::new(*file, bytes).unwrap(), None).unwrap();
    }
    let expected = data.join(files[0]).with_extension("expected");
    let actual = report(&inputs, format);
    if std::env::var_os("REDIAL_BLESS").is_some() {
        std::fs::write(&expected, &actual).unwrap();
    }
    let known = std::fs::read_to_string(&expected).unwrap_or_default();
    assert_eq!(actual, known, "{}: REDIAL_BLESS=1 updates it", expected.display());
}

fn place(inputs: &Inputs, place: Place) -> String {
    let source = inputs.source(place.source);
    let (line, column) = crate::line_column(source.text(), place.span.start);
    let text = source.text()[place.span.range()].lines().next().unwrap_or_default();
    format!("{}:{line}:{column} `{}`", source.name(), text.chars().take(40).collect::<String>())
}

fn report(inputs: &Inputs, format: Format) -> String {
    let reading = inputs.read(Some(format));
    let mut out = String::new();
    for found in &reading.found {
        writeln!(out, "{} at {}", found.name, place(inputs, found.places.whole())).unwrap();
        let draft: Draft = found.policy.clone().into();
        writeln!(out, "  {draft:?}").unwrap();
        for field in ["attempts", "attempt_timeout", "deadline", "backoff", "budget", "retry_on"] {
            if found.places.has(field) {
                writeln!(out, "  {field}: {}", place(inputs, found.places.of(field))).unwrap();
            }
        }
        for route in &found.routes {
            writeln!(out, "  {route:?}").unwrap();
        }
        if let Some(queue) = found.setting.queue {
            writeln!(out, "  queue: {queue:?}").unwrap();
        }
        for note in &found.notes {
            writeln!(out, "  {} {}: {}", note.kind.name(), note.field, note.text).unwrap();
        }
    }
    for finding in &reading.findings {
        let place = place(inputs, finding.place);
        writeln!(out, "{} {place}\n  {}\n  {}", finding.rule.name, finding.message, finding.help)
            .unwrap();
    }
    for (source, problem) in &reading.problems {
        let place = Place { source: *source, span: problem.span.unwrap() };
        writeln!(out, "problem {}\n  {problem}", self::place(inputs, place)).unwrap();
    }
    out
}

#[test]
fn envoy_routes_are_joined_with_their_clusters() {
    check(Format::Envoy, &["envoy/bootstrap.yaml"]);
}

#[test]
fn envoy_fields_can_have_protobuf_json_names() {
    check(Format::Envoy, &["envoy/xds.yaml"]);
}

#[test]
fn envoy_fragments_are_read_without_a_route() {
    check(Format::Envoy, &["envoy/filter.yaml"]);
}

#[test]
fn istio_rules_can_be_in_another_file() {
    check(Format::Istio, &["istio/reviews.yaml", "istio/reviews-rule.yaml"]);
}

#[test]
fn files_in_config_maps_keep_their_places() {
    check(Format::Envoy, &["envoy/config-map.yaml"]);
}

#[test]
fn istio_services_are_joined_with_their_rules() {
    check(Format::Istio, &["istio/payments.yaml"]);
}

#[test]
fn linkerd_profiles_shadow_annotations() {
    check(Format::Linkerd, &["linkerd/books.yaml"]);
}

#[test]
fn gateway_routes_are_joined_with_their_policies() {
    check(Format::GatewayApi, &["gateway-api/shop.yaml"]);
}

/// The first problem of a text, with the place that it names.
fn problem(format: Format, text: &str, expected: &str) {
    let mut inputs = Inputs::new();
    let source = SourceText::new("x.yaml", text.as_bytes().to_vec()).unwrap();
    let (span, message) = match inputs.add(source, None) {
        Err((_, problem)) => (problem.span, problem.to_string()),
        Ok(_) => {
            let reading = inputs.read(Some(format));
            let (_, problem) = reading.problems.first().unwrap_or_else(|| panic!("none: {text}"));
            (problem.span, problem.to_string())
        }
    };
    let piece = &text[span.unwrap().range()];
    assert_eq!(format!("{piece} | {message}"), expected);
}

#[test]
fn invalid_envoy_configs_are_problems() {
    let check = |fields: &str, expected: &str| {
        let route = format!("{{match: {{prefix: /}}, route: {{cluster: c, {fields}}}}}");
        problem(Format::Envoy, &format!("routes: [{route}]"), expected);
    };
    let on = |field: &str| format!("retry_policy: {{retry_on: 5xx, {field}}}");
    check(
        &on("per_try_timeout: 250ms"),
        "250ms | routes[0].route.retry_policy.per_try_timeout: must be seconds such as \"0.25s\" or \"15s\"",
    );
    check(
        &on("num_retries: -1"), // tidy-allow: the name in Envoy's API
        "-1 | routes[0].route.retry_policy.num_retries: must be at least 0, but is -1", // tidy-allow: the same
    );
    check(
        &on("retry_back_off: {max_interval: 1s}"),
        "{max_interval: 1s} | routes[0].route.retry_policy.retry_back_off: Envoy requires base_interval: \
         add one, such as \"0.025s\"",
    );
    check(
        &on("retry_back_off: {base_interval: 2s, max_interval: 1s}"),
        "{base_interval: 2s, max_interval: 1s} | not a valid policy: backoff.base is 2s, but must be at \
         most backoff.cap, which is 1s",
    );
    check(
        &format!("timeout: 1.x, {}", on("")),
        "1.x | routes[0].route.timeout: must be seconds such as \"0.25s\" or \"15s\"",
    );
    check(
        "retry_policy: {retry_on: retriable-status-codes, retriable_status_codes: [5xx]}",
        "5xx | routes[0].route.retry_policy.retriable_status_codes[0]: must be a whole number, but is \"5xx\"",
    );
    check(
        "retry_policy: {retry_on: retriable-status-codes, retriable_status_codes: [503, 200]}",
        "200 | routes[0].route.retry_policy.retriable_status_codes[1]: 200 is not a failure, and is never retried \
         here; list statuses from 400 to 599",
    );
    problem(
        Format::Envoy,
        "clusters: [{name: c, circuit_breakers: {thresholds: [{retry_budget: {budget_percent: {value: 120}}}]}}]",
        "120 | clusters[0].circuit_breakers.thresholds[0].retry_budget.budget_percent.value: must be a \
         percentage from 0 to 100, but is 120",
    );
}

#[test]
fn invalid_configs_of_other_meshes_are_problems() {
    let service = |fields: &str| {
        format!(
            "{{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {{name: a}}, spec: \
             {{http: [{{route: [{{destination: {{host: a}}}}], {fields}}}]}}}}"
        )
    };
    problem(
        Format::Istio,
        &service("retries: {attempts: many}"),
        "many | spec.http[0].retries.attempts: must be a whole number, but is \"many\"",
    );
    problem(
        Format::Istio,
        &service("timeout: 5"),
        "5 | spec.http[0].timeout: must be a duration such as 500ms or 1m30s, with h, m, s or ms",
    );
    let annotated = |annotation: &str| {
        format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: a, annotations: {{{annotation}}}}}}}"
        )
    };
    problem(
        Format::Linkerd,
        &annotated("retry.linkerd.io/limit: two"),
        "two | metadata.annotations.retry.linkerd.io/limit: must be a whole number, but is \"two\"",
    );
    problem(
        Format::GatewayApi,
        "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, spec: {rules: [{retry: {codes: [200]}}]}}",
        "200 | spec.rules[0].retry.codes[0]: must be at least 400, but is 200",
    );
}

#[test]
fn an_invalid_file_in_a_config_map_is_a_problem_in_the_manifest() {
    problem(
        Format::Envoy,
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  envoy.yaml: |\n    retry_policy: {{ .Values.x }\n",
        "{ .Values.x } | data.envoy.yaml: a key must be text; this looks like a template: render it first, \
         and check the result",
    );
}

#[test]
fn files_in_config_maps_are_bounded_together() {
    let mut text = String::new();
    for _ in 0..100 {
        text.push_str(
            "---\nkind: ConfigMap\ndata:\n  a: |\n    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n",
        );
        for i in 1..6 {
            let before = format!("*a{}, ", i - 1).repeat(10);
            text.push_str(&format!("    a{i}: &a{i} [{before}]\n"));
        }
    }
    let source = SourceText::new("x.yaml", text.into_bytes()).unwrap();
    let (_, problem) = Inputs::new().add(source, None).unwrap_err();
    assert_eq!(problem.message, "data.a: more than 1000000 values, with aliases expanded");
}

proptest! {
    /// A config with one line removed and one word replaced is read or refused without a panic.
    #[test]
    fn damaged_configs_do_not_panic(
        file in prop::sample::select(vec![
            include_str!("../data/envoy/bootstrap.yaml"),
            include_str!("../data/envoy/config-map.yaml"),
            include_str!("../data/envoy/xds.yaml"),
            include_str!("../data/istio/payments.yaml"),
            include_str!("../data/linkerd/books.yaml"),
            include_str!("../data/gateway-api/shop.yaml"),
        ]),
        gone in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        word in "-1|0|4294967296|1e99|99999999999h|\\[\\]|\\{\\}|null|~|'|\\| |ö|.{0,6}",
    ) {
        let lines: Vec<&str> = file.lines().collect();
        let gone = gone.index(lines.len());
        let kept = lines.iter().enumerate().filter(|(i, _)| *i != gone);
        let text = kept.map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
        let words: Vec<&str> = text.split(' ').collect();
        let at = at.index(words.len());
        let damaged = words.iter().enumerate().map(|(i, old)| if i == at { &word } else { *old });
        let damaged = damaged.collect::<Vec<_>>().join(" ");
        let mut inputs = Inputs::new();
        if inputs.add(SourceText::new("x.yaml", damaged.into_bytes()).unwrap(), None).is_ok() {
            let reading = inputs.read(None);
            let places = reading.findings.iter().flat_map(|found| [found.place, found.policy]);
            let places = places.chain(reading.found.iter().map(|found| found.places.whole()));
            let problems = reading.problems.iter();
            let problems = problems.map(|(source, problem)| Place {
                source: *source,
                span: problem.span.unwrap(),
            });
            for place in places.chain(problems) {
                let text = inputs.source(place.source).text();
                prop_assert!(text.get(place.span.range()).is_some(), "{:?}", place);
            }
        }
    }
}
