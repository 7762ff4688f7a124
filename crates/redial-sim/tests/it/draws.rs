//! Random cells of the bench.

use std::collections::{BTreeMap, BTreeSet};

use redial_core::Span;
use redial_sim::bench::{Cell, Family, Suite, high_traffic_cells, random_cells};

fn texts(cells: &[Cell]) -> Vec<&str> {
    cells.iter().map(|cell| cell.text.as_str()).collect()
}

#[test]
fn random_scenarios_follow_from_the_seed_and_are_in_range() {
    let cells = random_cells(68, 5).unwrap();
    let again = random_cells(68, 5).unwrap();
    assert_eq!(texts(&cells), texts(&again));
    assert_ne!(texts(&cells), texts(&random_cells(68, 6).unwrap()));
    let kinds: BTreeSet<&str> = cells.iter().map(|cell| cell.kind).collect();
    assert!(kinds.len() >= 15, "{kinds:?}");
    let families = cells.iter().filter(|cell| cell.family() == Family::Timeout).count();
    assert_eq!((cells.len(), families), (136, 68));
    for Cell { scenario, deadline, text, .. } in &cells {
        let ms = scenario.backend.service.mean() / 1e6;
        assert!((4.0..260.0).contains(&ms), "{ms} {text}");
        assert!(scenario.calls() < 25_000.0, "{} {text}", scenario.calls());
        let times = deadline.as_secs_f64() * 1e3 / ms;
        assert!((6.0..700.0).contains(&times), "{times} {text}");
        let load = scenario.rate().unwrap() / scenario.backend.capacity();
        assert!((0.25..1.0).contains(&load), "{load} {text}");
    }
}

#[test]
fn high_traffic_follows_from_the_seed_and_is_in_range() {
    let cells = high_traffic_cells(60, 5).unwrap();
    assert_eq!(texts(&cells), texts(&high_traffic_cells(60, 5).unwrap()));
    assert_ne!(texts(&cells), texts(&high_traffic_cells(60, 6).unwrap()));
    let mut combined: BTreeMap<(&str, Span), u32> = BTreeMap::new();
    for cell in &cells {
        let Cell { scenario, deadline, text, .. } = cell;
        let instances = scenario.clients.instances;
        assert!((1..=20).contains(&instances), "{text}");
        let each = scenario.rate().unwrap() / f64::from(instances);
        assert!((199.9..=5_000.1).contains(&each), "{each} {text}");
        let load = scenario.rate().unwrap() / scenario.backend.capacity();
        assert!((0.44..0.91).contains(&load), "{load} {text}");
        let ms = scenario.backend.service.mean() / 1e6;
        assert!((2.9..51.0).contains(&ms), "{ms} {text}");
        assert!((1_000..=10_000).contains(&deadline.as_millis()), "{text}");
        if let Some(timeout) = cell.timeout {
            let times = deadline.as_secs_f64() / timeout.as_secs_f64();
            assert!((3.9..8.1).contains(&times), "{times} {text}");
        }
        assert_eq!((cell.suite, cell.scale()), (Suite::HighTraffic, 1), "{text}");
        let (start, end) = scenario.fault_span().unwrap();
        assert!(scenario.end() - end >= 2 * Span::from(*deadline), "{text}");
        *combined.entry((cell.kind, end - start)).or_default() += 1;
    }
    assert_eq!(combined.len(), 30, "each kind lasts for each time: {combined:?}");
    assert!(combined.values().all(|count| *count == 4), "twice, in both families: {combined:?}");
}
