//! The numbers of a meter for a dashboard.

use std::time::Duration;

use redial::Span;
use redial::telemetry::Registry;
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::{Event, Observer as _, Stop};

#[test]
fn snapshots_have_what_happened_between_them() {
    let registry = Registry::new();
    let meter = registry.meter("payments");
    let ended = |number, ms, outcome| Event::AttemptEnded {
        number,
        taken: Duration::from_millis(ms),
        outcome,
    };
    let timeout = Outcome::Failure(Failure::new(Class::Timeout));
    let one = |reason| {
        meter.event(&Event::Attempt { number: 1, hedge: false });
        meter.event(&ended(1, 400, timeout));
        meter.event(&Event::Attempt { number: 2, hedge: false });
        match reason {
            None => {
                meter.event(&ended(2, 8, Outcome::Success));
                meter.event(&Event::Succeeded { attempts: 2 });
            }
            Some(reason) => {
                meter.event(&ended(2, 400, timeout));
                meter.event(&Event::Stopped { reason, attempts: 2 });
            }
        }
    };
    one(None);
    let before = registry.snapshots().remove(0);
    one(None);
    one(Some(Stop::Attempts));
    let now = registry.snapshots().remove(0);
    assert_eq!(now.upstream, "payments");
    assert_eq!([now.calls, now.attempts, now.succeeded, now.in_flight], [3, 6, 2, 0]);
    assert_eq!(now.stops[Stop::Attempts as usize], 1);
    assert_eq!(now.stops.iter().sum::<u64>(), 1);
    assert_eq!(now.failures[Class::Timeout as usize], 4);
    assert_eq!(now.failures.iter().sum::<u64>(), 4);
    let (answered, failed) =
        (now.answered.since(&before.answered), now.failed.since(&before.failed));
    assert_eq!((answered.count(), failed.count()), (1, 3));
    assert_eq!(answered.with(&failed).count(), 4);
    assert_eq!((now.balance, now.breakers), (None, None));
}

#[test]
fn quantiles_lie_in_the_bucket_of_their_rank() {
    let registry = Registry::new();
    let meter = registry.meter("payments");
    let none = registry.snapshots().remove(0).answered;
    assert_eq!(none.quantile(0.5), None);
    let answer = |ms: u64| {
        meter.event(&Event::Attempt { number: 1, hedge: false });
        let taken = Duration::from_millis(ms);
        meter.event(&Event::AttemptEnded { number: 1, taken, outcome: Outcome::Success });
    };
    // 90 in the bucket from 5 to 10 ms, ten in that from 250 to 500 ms.
    (0..90).for_each(|_| answer(8));
    (0..10).for_each(|_| answer(300));
    let durations = registry.snapshots().remove(0).answered;
    let ms = |share| durations.quantile(share).unwrap().as_millis_f64();
    assert!((5.0..=10.0).contains(&ms(0.0)), "{}", ms(0.0));
    assert!((ms(0.45) - 7.5).abs() < 0.01, "half of the first bucket: {}", ms(0.45));
    assert!((ms(0.9) - 10.0).abs() < 0.01, "{}", ms(0.9));
    assert!((ms(0.95) - 375.0).abs() < 0.01, "half of the second bucket: {}", ms(0.95));
    assert!((ms(1.0) - 500.0).abs() < 0.01, "{}", ms(1.0));
    assert!((ms(7.0) - 500.0).abs() < 0.01, "a share above 1 is 1: {}", ms(7.0));
    // Beyond the last bound there is only the bound.
    (0..1000).for_each(|_| answer(90_000));
    assert_eq!(registry.snapshots().remove(0).answered.quantile(0.99), Some(Span::from_secs(50)));
}
