//! What holds whatever happens, in any order.

use proptest::prelude::*;
use redial_core::admit::ParkRule;
use redial_core::decide::{Class, Failure};
use redial_core::{Call, Deadline, Span, Stop, Time, Turn, Verdict};

use super::{Site, warm};
use crate::support::{MS, SECOND, at};

/// What happens next at a destination.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Failure,
    Timeout,
    Success,
    Cancel,
}

fn anything() -> impl Strategy<Value = Happens> {
    use Happens::{Cancel, Failure, Success, Timeout};
    prop_oneof![4 => Just(Failure), 2 => Just(Timeout), 3 => Just(Success), 1 => Just(Cancel)]
}

/// A parked call, after when an attempt must have been sent to be evidence, and when to ask next.
struct Held(Call, Time, Deadline);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parked_calls_are_bounded_and_released_by_evidence_or_as_probes(
        steps in proptest::collection::vec((anything(), 1u64..300), 1..120),
        most in 1u32..8,
    ) {
        let site = warm(ParkRule::default().most(most));
        let (mut now, mut newest) = (at(2 * SECOND), Time::ZERO);
        let mut held: Vec<Held> = Vec::new();
        for (happens, after) in steps {
            now += after * MS;
            match happens {
                Happens::Success => {
                    site.succeed(now, now);
                    newest = now;
                }
                Happens::Cancel => {
                    if let Some(Held(mut call, ..)) = held.pop() {
                        call.cancel(&site.cx(), now);
                    }
                }
                failure => {
                    let (class, taken) = match failure {
                        Happens::Timeout => (Class::Timeout, 200 * MS),
                        _ => (Class::Overloaded, Span::ZERO),
                    };
                    let (call, verdict) = site.fail_as(class, now - taken, now);
                    if let (true, Verdict::Wait(until)) = (call.is_parked(), verdict) {
                        held.push(Held(call, now - taken / 2, until.into()));
                    }
                }
            }
            prop_assert!(site.guards.parked() <= most);
            prop_assert_eq!(site.guards.parked() as usize, held.len());
            let mut probes = 0;
            let mut kept = Vec::new();
            for Held(mut call, since, until) in held {
                if !until.is_over(now) {
                    kept.push(Held(call, since, until));
                    continue;
                }
                match site.ask(&mut call, now).0 {
                    Turn::Wait(later) => {
                        prop_assert!(later <= call.deadline());
                        kept.push(Held(call, since, now.into()));
                    }
                    Turn::Go => {
                        prop_assert!(!call.deadline().is_over(now));
                        probes += u32::from(newest <= since);
                        call.cancel(&site.cx(), now);
                    }
                    Turn::Stop(stop) => {
                        prop_assert!(stop == Stop::Budget || call.deadline().is_over(now), "{:?}", stop);
                    }
                }
            }
            prop_assert!(probes <= 1, "one call at a time is sent to find out");
            held = kept;
        }
    }

    #[test]
    fn a_total_outage_sees_no_more_retries_than_the_bucket_held(
        calls in proptest::collection::vec((1u64..400, any::<bool>()), 1..400),
    ) {
        let site = Site::new(ParkRule::default());
        let (mut now, mut retries) = (at(SECOND), 0u64);
        let mut held: Vec<(Call, Time)> = Vec::new();
        for (gap, times_out) in calls {
            now += gap * MS;
            let class = if times_out { Class::Timeout } else { Class::Overloaded };
            let (call, verdict) = site.fail_as(class, now, now + MS);
            match verdict {
                Verdict::Wait(until) => held.push((call, until)),
                _ => prop_assert!(call.is_over()),
            }
            now += MS;
            for (mut call, until) in std::mem::take(&mut held) {
                if until > now {
                    held.push((call, until));
                    continue;
                }
                match site.ask(&mut call, now).0 {
                    Turn::Wait(_) => held.push((call, now)),
                    Turn::Stop(_) => {}
                    Turn::Go => {
                        retries += 1;
                        let permit = call.admit(&site.cx(), now).unwrap();
                        let failed = Failure::new(class).into();
                        if let Verdict::Wait(until) = call.settle(&site.cx(), permit, &failed, now, || 0) {
                            held.push((call, until));
                        }
                    }
                }
            }
        }
        // Three of a new process, and one in 30 s from the first refusal on.
        prop_assert!(retries <= 3 + 1 + now.since_zero() / (30 * SECOND), "{} until {:?}", retries, now);
    }
}
