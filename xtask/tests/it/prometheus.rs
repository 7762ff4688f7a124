//! The private Prometheus: it evaluates rules, and reports an invalid config.

use xtask::prometheus::Prometheus;

const RULES: &str = "groups: [{ name: g, rules: [{ record: one, expr: vector(1) }] }]";

#[test]
fn a_private_prometheus_evaluates_rules() {
    let config = "global: { evaluation_interval: 1s }\nrule_files: [rules.yml]";
    let prometheus =
        Prometheus::start(config, RULES).expect("needs Prometheus: run `cargo xtask test`");
    let rules = prometheus.get("/api/v1/rules").expect("it is ready");
    assert!(rules.contains("\"name\":\"one\""), "{rules}");
    let refused = prometheus.get("/api/v1/query?query=(").expect_err("not a query");
    assert!(refused.contains(" answers HTTP/1.0 400 Bad Request: "), "{refused}");
}

#[test]
fn an_invalid_config_is_reported() {
    let error = Prometheus::start("scrape: [", RULES).expect_err("not a config");
    assert!(error.contains("the private prometheus at ") && error.contains("yaml"), "{error}");
}
