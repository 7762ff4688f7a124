//! Golden files of exports to the meshes, with their notes.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use redial_core::admit::budget::{Budget, InflightBudget};
use redial_core::admit::{BreakerRule, CoolDownRule};
use redial_core::decide::{Class, RetryOn};
use redial_core::schedule::Backoff;
use redial_core::{Policy, Preset};
use redial_policy::Format;
use redial_policy::file::{File, Named, Queue, Route, Setting};

fn named(name: &str, policy: Policy) -> Named {
    Named { name: name.into(), policy, setting: Setting::default() }
}

/// Three policies, two of them for one host, one without a route.
fn file() -> File {
    let ms = Duration::from_millis;
    let cart = Policy::draft().attempts(2).attempt_timeout(Duration::from_micros(1500));
    let cart = cart.backoff(Backoff::constant(ms(50))).concurrency(100).refuse_nested();
    let cart = cart.budget(Budget::Inflight(InflightBudget::new(0.25, 0)));
    let cart = cart.retry_on(RetryOn::nothing().class(Class::Reset).code(503).code(2).code(14));
    let cart = cart.breaker(BreakerRule::default()).cooldown(CoolDownRule::every(ms(100)));
    let route = |host: &str, path: &str, methods: &[&str], policy: &str| Route {
        host: Some(host.into()),
        path: Some(path.into()),
        methods: methods.iter().map(|method| (*method).to_owned()).collect(),
        key: policy == "pay",
        policy: policy.into(),
        ..Route::default()
    };
    File {
        policies: vec![
            named("pay", Preset::PaymentProcessor.into()),
            named("cart", cart.build().unwrap()),
            named("free", Policy::draft().budget(Budget::None).without_deadline().build().unwrap()),
        ],
        routes: vec![
            route("shop.prod.svc.cluster.local", "/pay/*", &["POST"], "pay"),
            route("shop.prod.svc.cluster.local", "/cart", &["GET", "PUT"], "cart"),
        ],
        setting: Setting { queue: Some(Queue::Bounded(64)), ..Setting::default() },
        ..File::default()
    }
}

/// `REDIAL_BLESS=1` updates the file.
fn check(format: Format) {
    let written = format.write(&file()).unwrap();
    let mut actual = String::new();
    for (name, notes) in &written.notes {
        writeln!(actual, "{name}").unwrap();
        for note in notes {
            writeln!(actual, "  {} {}: {}", note.kind.name(), note.field, note.text).unwrap();
        }
    }
    actual.push_str(&written.text);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format.name());
    let expected = folder.join("export.expected");
    if std::env::var_os("REDIAL_BLESS").is_some() {
        std::fs::write(&expected, &actual).unwrap();
    }
    let known = std::fs::read_to_string(&expected).unwrap_or_default();
    assert_eq!(actual, known, "{}: REDIAL_BLESS=1 updates it", expected.display());
}

#[test]
fn exports_report_losses() {
    for format in [Format::Envoy, Format::Istio, Format::Linkerd, Format::GatewayApi] {
        check(format);
    }
}

#[test]
fn a_file_without_policies_exports_nothing() {
    for format in [Format::Envoy, Format::Istio, Format::Linkerd, Format::GatewayApi] {
        let problem = format.write(&File::default()).unwrap_err();
        assert_eq!(problem.to_string(), "no policy to export; add one: `[policy.NAME]`");
    }
}

/// Exports to Envoy retry safe requests only, so that the rules report nothing.
#[test]
fn exports_to_envoy_retry_only_safe_requests() {
    for preset in redial_core::Preset::ALL {
        let policy = redial_core::Policy::from(preset);
        let named = Named { name: "a".to_owned(), policy, setting: Setting::default() };
        let file = File { policies: vec![named], ..File::default() };
        let written = Format::Envoy.write(&file).unwrap().text;
        let unsafe_ones = |text: &str| {
            let mut inputs = redial_policy::Inputs::new();
            let source = redial_policy::SourceText::new("a.yaml", text.into()).unwrap();
            inputs.add(source, None).unwrap();
            let findings = redial_policy::rules::review(&inputs.read(None).found);
            findings.iter().filter(|finding| finding.rule.name == "unsafe-without-key").count()
        };
        assert_eq!(unsafe_ones(&written), 0, "{}", preset.name());
        assert_eq!(unsafe_ones(&written.replace("GET|", "GET|POST|")), 1, "{}", preset.name());
    }
}
