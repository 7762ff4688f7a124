//! The diagnosis of two scrapes, or of three.

use redial_cli::diagnose::{Diagnosed, DiagnosedKind, Diagnosis, Scrape, Symptom, diagnose};
use redial_core::storm::Level;
use redial_core::{Span, Time};

fn look(page: &str, second: u64) -> Scrape {
    Scrape::read(page, Time::at(Span::from_secs(second))).unwrap()
}

/// Scrapes ten seconds apart.
fn judge(from: &str, to: &str) -> Diagnosis {
    diagnose(None, &look(from, 100), &look(to, 110))
}

fn client(fresh: u64, retried: u64, attempts: u64) -> String {
    format!(
        "redial_calls_total{{upstream=\"api\",origin=\"fresh\"}} {fresh}
redial_calls_total{{upstream=\"api\",origin=\"retried\"}} {retried}
redial_attempts_total{{upstream=\"api\"}} {attempts}
"
    )
}

fn only(diagnosis: &Diagnosis) -> &Diagnosed {
    assert_eq!(diagnosis.subjects.len(), 1);
    &diagnosis.subjects[0]
}

fn symptoms(subject: &Diagnosed) -> Vec<Symptom> {
    subject.findings.iter().map(|finding| finding.symptom).collect()
}

fn is_unknown(unknown: &[String], what: &str) -> bool {
    unknown.iter().any(|unknown| unknown.contains(what))
}

#[test]
fn our_own_retries_are_a_storm() {
    let found = judge(&client(1000, 0, 1000), &client(1100, 0, 1310));
    let api = only(&found);
    assert_eq!(
        (api.kind, api.name.as_str(), api.level()),
        (DiagnosedKind::Upstream, "api", Some(Level::Storm))
    );
    let flow = api.flow.unwrap();
    assert_eq!(
        (flow.calls, flow.inherited, flow.attempts, flow.over),
        (100, 0, 310, Span::from_secs(10))
    );
    assert_eq!(flow.multiplier(), Some(3.1));
    assert_eq!(symptoms(api), [Symptom::Unbounded]);
    assert!(is_unknown(&found.unknown, "without an attempt header"));
    assert!(is_unknown(&found.unknown, "--baseline"));
    assert_eq!(found.level(), Some(Level::Storm));
}

#[test]
fn retries_from_above_are_attributed_to_the_layer_above() {
    let found = judge(&client(0, 0, 0), &client(100, 190, 310));
    let api = only(&found);
    assert_eq!(api.level(), Some(Level::Storm));
    assert_eq!(api.flow.unwrap().from_above(), Some(190.0 / 210.0));
    assert_eq!(symptoms(api), [Symptom::FromAbove]);
    assert!(
        !is_unknown(&found.unknown, "without an attempt header"),
        "a layer above sends the header"
    );
}

#[test]
fn excess_is_attributed_to_the_larger_part_first() {
    let blamed = |retried, attempts| {
        symptoms(only(&judge(&client(0, 0, 0), &client(100, retried, attempts)))).to_vec()
    };
    assert_eq!(blamed(100, 300), [Symptom::FromAbove, Symptom::Unbounded], "half of it");
    assert_eq!(blamed(99, 300), [Symptom::Unbounded, Symptom::FromAbove]);
    assert_eq!(blamed(100, 299), [Symptom::FromAbove], "1.495 of each call");
    assert_eq!(blamed(49, 300), [Symptom::Unbounded]);
}

#[test]
fn a_surge_is_not_a_storm() {
    let before = look(&client(0, 0, 0), 0);
    let (from, to) = (look(&client(600, 0, 600), 60), look(&client(1000, 0, 1010), 70));
    let found = diagnose(Some(&before), &from, &to);
    let api = only(&found);
    assert_eq!((api.level(), api.surge), (Some(Level::Calm), Some(4.0)));
    assert_eq!(symptoms(api), [Symptom::Surge]);
    assert!(!is_unknown(&found.unknown, "--baseline"));

    let usual = look(&client(700, 0, 700), 70);
    let found = diagnose(Some(&before), &from, &usual);
    assert_eq!((only(&found).surge, symptoms(only(&found))), (Some(1.0), vec![]));
}

#[test]
fn a_storm_in_a_surge_is_a_storm() {
    let before = look(&client(0, 0, 0), 0);
    let (from, to) = (look(&client(600, 0, 600), 60), look(&client(1000, 0, 1800), 70));
    let found = diagnose(Some(&before), &from, &to);
    assert_eq!(only(&found).level(), Some(Level::Storm));
    assert_eq!(symptoms(only(&found)), [Symptom::Unbounded]);
}

#[test]
fn thresholds_are_those_of_the_core() {
    for (level, line) in Level::LINES {
        let attempts = |n: f64| client(1000, 0, (line * 1000.0 + n) as u64);
        let found = |attempts: &str| only(&judge(&client(0, 0, 0), attempts)).level().unwrap();
        assert_eq!(found(&attempts(0.0)), level);
        assert!(found(&attempts(-1.0)) < level);
    }
}

#[test]
fn symptoms_are_found() {
    let calm = client(0, 0, 0);
    let more = |lines: &str| format!("{}{lines}\n", client(1000, 0, 1000));
    let bucket = "redial_attempts_per_call_bucket{upstream=\"api\",le=";
    let buckets = format!("{bucket}\"5\"}} 90\n{bucket}\"+Inf\"}} 97");
    for (lines, symptom, number) in [
        ("redial_retry_budget_exhausted_total{upstream=\"api\"} 12", Symptom::BudgetDry, "12"),
        ("redial_hints_total{upstream=\"api\",result=\"ignored\"} 13", Symptom::HintsIgnored, "13"),
        (
            "redial_hints_total{upstream=\"api\",result=\"unreadable\"} 14",
            Symptom::HintsUnreadable,
            "14",
        ),
        ("redial_stops_total{upstream=\"api\",reason=\"unsafe\"} 15", Symptom::Unsafe, "15"),
        ("redial_stops_total{upstream=\"api\",reason=\"stalled\"} 16", Symptom::Stalled, "16"),
        (
            "redial_stops_total{upstream=\"api\",reason=\"attempts\"} 16",
            Symptom::AttemptsUsed,
            "16",
        ),
        ("redial_breaker_state{upstream=\"api\",state=\"open\"} 1", Symptom::BreakerOpen, ""),
        (&buckets, Symptom::TooManyAttempts, "attempts: 7"),
    ] {
        let found = judge(&calm, &more(lines));
        let api = only(&found);
        assert_eq!((api.level(), symptoms(api)), (Some(Level::Calm), vec![symptom]), "{lines}");
        assert!(api.findings[0].saw.contains(number), "{}", api.findings[0].saw);
        assert!(!symptom.fix().is_empty());
    }
    for lines in [
        "redial_hints_total{upstream=\"api\",result=\"honoured\"} 3",
        "redial_hints_total{upstream=\"other\",result=\"ignored\"} 3",
        "redial_breaker_state{upstream=\"api\",state=\"open\"} 0",
        "redial_stops_total{upstream=\"api\",reason=\"permanent\"} 3",
    ] {
        assert_eq!(symptoms(only(&judge(&calm, &more(lines)))), [], "{lines}");
    }
}

#[test]
fn the_symptom_of_a_storm_depends_on_the_metrics() {
    let storm = |line: &str| {
        let found = judge(&client(0, 0, 0), &format!("{}{line}\n", client(100, 0, 300)));
        symptoms(only(&found))
    };
    assert_eq!(storm(""), [Symptom::Unbounded]);
    assert_eq!(storm("redial_retry_budget_balance{upstream=\"api\"} 40"), [Symptom::LooseBudget]);
    let hedges = "redial_retries_total{upstream=\"api\",reason=\"hedge\"} 150";
    assert_eq!(storm(hedges), [Symptom::Hedges]);
}

#[test]
fn a_server_sees_retries_from_above() {
    let page = |first: u64, retry: u64| {
        format!(
            "redial_server_requests_total{{server=\"shop\",attempt=\"first\"}} {first}
redial_server_requests_total{{server=\"shop\",attempt=\"retry\"}} {retry}\n"
        )
    };
    let found = judge(&page(50, 0), &page(150, 300));
    let shop = only(&found);
    assert_eq!((shop.kind, shop.level()), (DiagnosedKind::Server, Some(Level::Critical)));
    assert_eq!(shop.flow.unwrap().from_above(), Some(1.0));
    assert_eq!(symptoms(shop), [Symptom::FromAbove]);
}

#[test]
fn an_envoy_is_judged_by_its_own_counters() {
    let page = |all: u64, retries: u64, overflow: u64, exceeded: u64, helped: u64| {
        let line = |name: &str, value| {
            format!("envoy_cluster_upstream_rq_{name}{{envoy_cluster_name=\"orders\"}} {value}\n")
        };
        line("total", all)
            + &line("retry", retries)
            + &line("retry_overflow", overflow)
            + &line("retry_limit_exceeded", exceeded)
            + &line("retry_success", helped)
    };
    let found = judge(&page(0, 0, 0, 0, 0), &page(400, 240, 17, 0, 23));
    let orders = only(&found);
    assert_eq!((orders.kind, orders.level()), (DiagnosedKind::Cluster, Some(Level::Storm)));
    assert_eq!(symptoms(orders), [Symptom::Unbounded, Symptom::BudgetDry]);
    assert!(orders.findings[0].saw.contains("240 of 400 attempts are retries of Envoy"));
    assert!(orders.findings[1].saw.contains("17"));
    assert!(is_unknown(&found.unknown, "which requests to Envoy are retries"));
    assert!(!is_unknown(&found.unknown, "without an attempt header"));

    let found = judge(&page(0, 0, 0, 0, 0), &page(400, 20, 0, 5, 15));
    assert_eq!(
        (only(&found).level(), symptoms(only(&found))),
        (Some(Level::Calm), vec![Symptom::AttemptsUsed])
    );
    let saw = "calls that failed after all their retries: 5; calls that succeeded by a retry: 15";
    assert_eq!(only(&found).findings[0].saw, saw);
}

#[test]
fn the_worst_is_first() {
    let page = |calls: [u64; 3]| {
        let line = |name: &str, attempts: u64| {
            format!(
                "redial_calls_total{{upstream=\"{name}\",origin=\"fresh\"}} {}
redial_attempts_total{{upstream=\"{name}\"}} {attempts}\n",
                attempts.min(100)
            )
        };
        ["a", "b", "c"].iter().zip(calls).map(|(name, n)| line(name, n)).collect::<String>()
    };
    let found = judge(&page([0, 0, 0]), &page([100, 420, 160]));
    let order: Vec<_> = found.subjects.iter().map(|subject| subject.name.as_str()).collect();
    assert_eq!(order, ["b", "c", "a"]);
}

#[test]
fn unknowns_are_reported() {
    let quiet = client(5, 0, 9);
    let found = judge(&quiet, &quiet);
    assert!(only(&found).level().is_none() && only(&found).is_idle());

    let found = judge(&quiet, &client(5, 0, 19));
    assert!(!only(&found).is_idle());
    assert_eq!(only(&found).level(), None, "retries of earlier calls give no ratio");
    assert!(is_unknown(&only(&found).unknown, "all 10 attempts are retries of earlier calls"));

    let few = |calls: u64| judge(&quiet, &client(5 + calls, 0, 9 + calls));
    assert!(is_unknown(&only(&few(19)).unknown, "much from only 19 calls"));
    assert!(only(&few(20)).unknown.is_empty());

    let found = judge(&client(5000, 0, 9000), &client(100, 0, 100));
    let api = only(&found);
    assert_eq!((api.level(), api.flow.unwrap().calls), (Some(Level::Calm), 100));
    assert!(is_unknown(&api.unknown, "restarted"));

    let found = judge(&client(5000, 0, 9000), "redial_fleet_connected{fleet=\"f\"} 1\n");
    let api =
        found.subjects.iter().find(|subject| subject.kind == DiagnosedKind::Upstream).unwrap();
    assert!(api.level().is_none() && is_unknown(&api.unknown, "not in the last one"));

    let twice = client(100, 0, 100) + &client(200, 0, 200);
    let found = judge(&client(0, 0, 0), &twice);
    assert_eq!(only(&found).flow.unwrap().calls, 200);
    assert!(is_unknown(&found.unknown, "3 duplicate samples"));
}

#[test]
fn instances_in_one_page_are_summed() {
    let page = |n: u64| {
        (0..3).map(move |instance| {
            format!(
                "redial_calls_total{{instance=\"i{instance}\",origin=\"fresh\",upstream=\"api\"}} {n}
redial_attempts_total{{upstream=\"api\",instance=\"i{instance}\"}} {}\n",
                2 * n
            )
        })
    };
    let found = judge(&page(10).collect::<String>(), &page(110).collect::<String>());
    let flow = only(&found).flow.unwrap();
    assert_eq!((flow.calls, flow.attempts), (300, 600));
}

#[test]
fn the_order_of_labels_does_not_matter() {
    let turned = "redial_calls_total{origin=\"fresh\",upstream=\"api\"} 150
redial_attempts_total{upstream=\"api\"} 150\n";
    let found = judge(&client(100, 0, 100), turned);
    assert_eq!(only(&found).flow.unwrap().calls, 50);
}

#[test]
fn late_retries_of_jobs_are_not_a_storm() {
    let page = |calls: u64, attempts: u64, ratio: f64| {
        format!(
            "redial_calls_total{{upstream=\"mail\",origin=\"fresh\"}} {calls}
redial_attempts_total{{upstream=\"mail\"}} {attempts}
redial_multiplier_ratio{{upstream=\"mail\"}} {ratio}\n"
        )
    };
    let queue = "redial_queue_jobs_total{queue=\"mail\",result=\"done\"} 7\n";
    let level = |more: &str, ratio| {
        let found = judge(&page(0, 0, 1.0), &(page(100, 500, ratio) + more));
        let mail =
            found.subjects.iter().find(|subject| subject.kind == DiagnosedKind::Upstream).unwrap();
        assert_eq!(is_unknown(&mail.unknown, "which jobs"), !more.is_empty());
        assert_eq!(symptoms(mail).is_empty(), mail.level() == Some(Level::Calm));
        mail.level().unwrap()
    };
    assert_eq!(level(queue, 1.2), Level::Calm);
    assert_eq!(level(queue, 2.5), Level::Storm);
    assert_eq!(level("", 1.2), Level::Critical, "only a queue has such long waits");
}

#[test]
fn queues_and_fleets_have_symptoms() {
    let page = |age: f64, retries: u64, done: u64, dead: u64, connected: u64| {
        format!(
            "redial_queue_age_seconds{{queue=\"mail\"}} {age}
redial_queue_retries_total{{queue=\"mail\",reason=\"timeout\"}} {retries}
redial_queue_jobs_total{{queue=\"mail\",result=\"done\"}} {done}
redial_queue_jobs_total{{queue=\"mail\",result=\"dead\"}} {dead}
redial_fleet_connected{{fleet=\"shop\"}} {connected}
redial_fleet_differs{{fleet=\"shop\"}} {}
redial_fleet_balance{{fleet=\"shop\"}} {connected}\n",
            1 - connected
        )
    };
    let by = |found: &Diagnosis, kind| {
        let subject = found.subjects.iter().find(|subject| subject.kind == kind).unwrap();
        (subject.level(), symptoms(subject))
    };
    let found = judge(&page(5.0, 10, 10, 0, 1), &page(15.0, 100, 20, 3, 0));
    let queue = vec![Symptom::QueueAgeing, Symptom::QueueRetries, Symptom::DeadLetters];
    assert_eq!(by(&found, DiagnosedKind::Queue), (None, queue));
    let fleet = vec![Symptom::FleetLost, Symptom::FleetDiffers];
    assert_eq!(by(&found, DiagnosedKind::Fleet), (None, fleet));
    assert_eq!(found.level(), None, "retries of a queue are not a storm");

    let found = judge(&page(0.0, 0, 0, 0, 1), &page(2.0, 0, 9, 0, 1));
    assert_eq!(by(&found, DiagnosedKind::Queue), (None, vec![]), "nothing was due before");

    let dry = "redial_queue_retry_budget_balance{queue=\"mail\"} 0\n";
    let found = judge("", &(page(3.0, 1, 2, 0, 1) + dry));
    assert_eq!(by(&found, DiagnosedKind::Queue), (None, vec![Symptom::BudgetDry]));

    let found = judge(&page(5.0, 10, 10, 0, 1), &page(3.0, 12, 20, 0, 1));
    assert_eq!(
        (by(&found, DiagnosedKind::Queue), by(&found, DiagnosedKind::Fleet)),
        ((None, vec![]), (None, vec![]))
    );
}
