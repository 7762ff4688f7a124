//! What the readers of the meshes make of configs, in golden files: policies, routes, notes, findings, problems.

use std::fmt::Write as _;
use std::path::Path;

use redial_core::Draft;
use redial_policy::{Format, Pile, Place, Source};

/// Reads files of `tests/data` and compares what is said of them with the file beside the first.
/// `REDIAL_BLESS=1` writes it instead.
fn check(format: Format, files: &[&str]) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut pile = Pile::new();
    for file in files {
        let bytes = std::fs::read(data.join(file)).unwrap();
        pile.add(Source::new(*file, bytes).unwrap(), None).unwrap();
    }
    let expected = data.join(files[0]).with_extension("expected");
    let said = report(&pile, format);
    if std::env::var_os("REDIAL_BLESS").is_some() {
        std::fs::write(&expected, &said).unwrap();
    }
    let known = std::fs::read_to_string(&expected).unwrap_or_default();
    assert_eq!(said, known, "{}: REDIAL_BLESS=1 writes it anew", expected.display());
}

fn place(pile: &Pile, place: Place) -> String {
    let source = pile.source(place.source);
    let (line, column) = source.line_column(place.span.start);
    let text = source.text()[place.span.range()].lines().next().unwrap_or_default();
    format!("{}:{line}:{column} `{}`", source.name(), text.chars().take(40).collect::<String>())
}

fn report(pile: &Pile, format: Format) -> String {
    let reading = pile.read(Some(format));
    let mut out = String::new();
    for found in &reading.found {
        writeln!(out, "{} at {}", found.name, place(pile, found.places.whole())).unwrap();
        let draft: Draft = found.policy.clone().into();
        writeln!(out, "  {draft:?}").unwrap();
        for field in ["attempts", "attempt_timeout", "deadline", "backoff", "budget", "retry_on"] {
            if found.places.has(field) {
                writeln!(out, "  {field}: {}", place(pile, found.places.of(field))).unwrap();
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
        let place = place(pile, finding.place);
        writeln!(out, "{} {place}\n  {}\n  {}", finding.rule.name, finding.message, finding.help)
            .unwrap();
    }
    for (source, problem) in &reading.problems {
        let place = Place { source: *source, span: problem.span.unwrap() };
        writeln!(out, "problem {}\n  {problem}", self::place(pile, place)).unwrap();
    }
    out
}

#[test]
fn envoy_routes_are_joined_with_their_clusters() {
    check(Format::Envoy, &["envoy/bootstrap.yaml"]);
}

#[test]
fn files_inside_of_config_maps_keep_their_places() {
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
