//! Each preset is made for one scenario. There it must beat one attempt and not lose to the default.

use redial_sim::measure::Metric;

use crate::helpers::{built_in, run};

fn figure(figure: Metric, scenario: &str, policy: &str) -> f64 {
    run(&built_in(scenario, &[]), policy, 2).mean(figure)
}

#[test]
fn payment_processor_in_payments() {
    let success = |policy| figure(Metric::Success, "payments", policy);
    let preset = success("payment-processor");
    for (other, by) in [("no-retry", 0.08), ("three-retries", 0.07), ("standard", 0.03)] {
        let theirs = success(other);
        assert!(preset > theirs + by, "{preset} against {theirs} of {other}");
    }
}

#[test]
fn control_plane_in_controllers() {
    let preset = figure(Metric::PeakRatio, "controllers", "control-plane");
    for other in ["full-jitter", "standard"] {
        let theirs = figure(Metric::PeakRatio, "controllers", other);
        assert!(preset < theirs, "a peak of {preset}, {theirs} with {other}");
    }
    assert_eq!(figure(Metric::Success, "controllers", "control-plane"), 1.0);
}

#[test]
fn web_in_flapping_and_rate_limited() {
    for (scenario, gain) in [("flapping", 0.1), ("rate-limited", 0.03)] {
        let success = |policy| figure(Metric::Success, scenario, policy);
        let (preset, standard, once) = (success("web"), success("standard"), success("no-retry"));
        assert!(preset >= standard - 0.0001, "{scenario}: {preset}, {standard} with standard");
        assert!(preset > once + gain, "{scenario}: {preset}, {once} with one attempt");
    }
}

/// One player in 1,250 of the fleet, at an origin that is as much smaller.
#[test]
fn player_in_fleet() {
    let callers = "clients.arrivals.synchronised.callers=20000";
    let fleet = built_in("fleet", &[callers, "backend.servers=64", "backend.queue=800"]);
    let success = |policy| run(&fleet, policy, 1).mean(Metric::Success);
    let (preset, standard, once) = (success("player"), success("standard"), success("no-retry"));
    assert!(preset > 0.99 && preset > standard - 0.01, "{preset}, {standard} with standard");
    assert!(once < 0.5, "{once} with one attempt");
}

#[test]
fn fraud_score_fails_what_takes_longer_than_its_timeout() {
    let sets = ["backend.service=160ms", "backend.servers=200", "outage.duration=1ms"];
    let success = |policy| run(&built_in("blip", &sets), policy, 1).mean(Metric::Success);
    assert_eq!(success("fraud-score"), 0.0);
    assert!(success("no-retry") > 0.99);
}
