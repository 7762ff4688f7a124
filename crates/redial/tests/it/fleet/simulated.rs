use std::time::Duration;

use proptest::prelude::*;
use redial_core::admit::budget::WindowBudget;
use redial_core::{Deadline, Rate, Span, Time};

use super::simulation::{Plan, Seen, run};
use super::support::{SECOND, sec, spans};

const FLOOR: u32 = 10;

fn budget() -> WindowBudget {
    WindowBudget::ratio(0.1).floor(Rate::per_second(FLOOR)).ttl(Duration::from_secs(10))
}

/// The largest ratio of retries sent to retries allowed, over all intervals of whole seconds. `ready` is the number of
/// tokens that instances may have accumulated from fractions before the interval.
fn worst(plan: &Plan, seen: &Seen, ready: usize) -> f64 {
    let (seconds, ttl) =
        (plan.until.since_zero().as_secs() as usize, plan.budget.ttl.as_secs() as usize);
    let until = |times: &[Time]| -> Vec<f64> {
        let at = |second| times.partition_point(|at| *at < sec(second as u64)) as f64;
        (0..=seconds).map(at).collect()
    };
    let (calls, retries) = (until(&seen.calls), until(&seen.retries));
    let floor = f64::from(plan.budget.floor.count);
    let mut worst: f64 = 0.0;
    for from in 0..seconds {
        for to in from + 1..=seconds {
            let calls = calls[to] - calls[from.saturating_sub(ttl)];
            let ready = if from == 0 { 0 } else { ready };
            let most = plan.budget.ratio * calls + floor * (to - from + ttl) as f64 + ready as f64;
            worst = worst.max((retries[to] - retries[from]) / most);
        }
    }
    worst
}

fn per_second(times: &[Time], from: Time, to: Time) -> f64 {
    let count = times.iter().filter(|at| (from..to).contains(*at)).count();
    count as f64 * SECOND.ratio_to(to - from)
}

#[test]
fn a_fleet_sends_what_its_calls_and_one_floor_earn() {
    let plan = Plan::new(budget(), 200, 10 * SECOND, sec(60));
    let seen = run(&plan);
    assert!(worst(&plan, &seen, 0) <= 1.0);
    // 20 calls a second earn 2, and the floor is 10.
    let steady = per_second(&seen.retries, sec(20), sec(60));
    assert!((9.0..=12.0).contains(&steady), "{steady}");
    assert_eq!(seen.members, 200);
}

#[test]
fn no_share_is_spent_twice_during_a_partition() {
    let mut plan = Plan::new(budget(), 200, SECOND, sec(90));
    plan.reaches = Box::new(|index, now| index < 100 || !(sec(20)..sec(60)).contains(&now));
    let seen = run(&plan);
    assert!(worst(&plan, &seen, 100) <= 1.0);
    let cut = per_second(&seen.retries, sec(25), sec(60));
    // 200 calls a second earn 20.
    assert!((20.0..=30.0).contains(&cut), "{cut}");
}

/// The ledger assumes that members have learned of their smaller shares, but the replies were lost.
#[test]
fn lost_replies_during_growth_promise_no_share_twice() {
    let mut plan = Plan::new(budget(), 40, SECOND, sec(90));
    plan.budget.ratio = 0.0;
    plan.starts = Box::new(|index| if index < 20 { Time::ZERO } else { sec(20) });
    plan.loses = Box::new(|index, now| index < 20 && (sec(20)..sec(30)).contains(&now));
    let seen = run(&plan);
    assert!(worst(&plan, &seen, 20) <= 1.0);
    let after = per_second(&seen.retries, sec(50), sec(90));
    assert!((7.0..=10.5).contains(&after), "{after}");
}

#[test]
fn a_ledger_that_loses_its_data_changes_no_total() {
    let mut plan = Plan::new(budget(), 50, SECOND, sec(60));
    plan.forgets = (1..50).map(sec).collect();
    let seen = run(&plan);
    assert!(worst(&plan, &seen, 0) <= 1.0);
    assert_eq!(seen.members, 50, "all members have returned");
    assert!(per_second(&seen.retries, sec(50), sec(60)) > 10.0);
}

#[test]
fn without_any_ledger_there_is_no_floor() {
    let mut plan = Plan::new(budget(), 20, SECOND, sec(60));
    plan.reaches = Box::new(|_, _| false);
    let seen = run(&plan);
    let earned = seen.calls.len() as f64 * 0.1;
    assert!(seen.retries.len() as f64 <= earned, "{} of {earned}", seen.retries.len());
    assert!(seen.retries.len() as f64 > earned * 0.7, "it spends what its own calls earn");
}

#[test]
fn without_the_ledger_the_floor_accrues_in_fractions() {
    let mut plan = Plan::new(budget(), 200, 2 * SECOND, sec(120));
    plan.budget.ratio = 0.0;
    plan.reaches = Box::new(|_, now| now < sec(20));
    let seen = run(&plan);
    assert!(worst(&plan, &seen, 200) <= 1.0);
    // Each instance accrues a token in 20 s.
    let alone = per_second(&seen.retries, sec(50), sec(120));
    assert!((7.0..=10.5).contains(&alone), "{alone}");
}

#[test]
fn the_share_of_a_killed_instance_is_reassigned_only_after_its_expiry() {
    let mut plan = Plan::new(budget(), 40, SECOND, sec(60));
    plan.budget.ratio = 0.0;
    plan.killed = Box::new(|index| if index < 20 { sec(20).into() } else { Deadline::NONE });
    let seen = run(&plan);
    assert!(worst(&plan, &seen, 0) <= 1.0);
    let left = per_second(&seen.retries, sec(40), sec(60));
    assert!((4.0..=5.5).contains(&left), "half of the floor: {left}");
}

/// 10,000 instances: the bound holds, and the load on Redis is limited.
#[test]
fn ten_thousand_instances() {
    let mut plan = Plan::new(budget(), 10_000, 10 * SECOND, sec(20));
    plan.budget.floor = Rate::per_second(100);
    plan.fails = |now| now >= sec(10);
    let seen = run(&plan);
    assert!(worst(&plan, &seen, 0) <= 1.0);
    assert_eq!(seen.members, 10_000);
    // One sync every three sixteenths of the ttl, and one a second in a storm.
    let beat = 10 * SECOND * 3 / 16;
    let rest = per_second(&seen.asks, Time::at(2 * beat), Time::at(5 * beat));
    assert!((5_300.0..=5_400.0).contains(&rest), "{rest}");
    let storm = per_second(&seen.asks, sec(12), sec(20));
    assert!(storm <= 10_500.0, "{storm}");
    assert!(per_second(&seen.retries, sec(12), sec(20)) > 100.0);
}

#[derive(Clone, Debug)]
struct Fault {
    from: Time,
    lasts: Span,
    /// Applies to every n-th instance.
    of: usize,
}

impl Fault {
    fn hits(&self, index: usize, now: Time) -> bool {
        index.is_multiple_of(self.of) && (self.from..self.from + self.lasts).contains(&now)
    }
}

/// A time in the first so many seconds.
fn times(secs: u64) -> impl Strategy<Value = Time> {
    spans(Span::ZERO..secs * SECOND).prop_map(Time::at)
}

fn fault() -> impl Strategy<Value = Fault> {
    (times(30), spans(Span::ZERO..20 * SECOND), 1..4_usize).prop_map(|(from, lasts, of)| Fault {
        from,
        lasts,
        of,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn the_bound_holds_whatever_happens_to_the_ledger(
        instances in 1..12_usize,
        every in spans(Span::from_millis(20)..2 * SECOND),
        ratio in 0..500_u32,
        floor in 1..20_u32,
        ttl in 4..12_u64,
        cuts in proptest::collection::vec(fault(), 0..4),
        losses in proptest::collection::vec(fault(), 0..3),
        late in proptest::option::of(proptest::collection::vec(spans(Span::ZERO..20 * SECOND), 12)),
        kills in proptest::collection::vec((0..12_usize, times(30)), 0..4),
        forgets in proptest::collection::vec(times(30), 0..4),
        seed: u64,
    ) {
        let budget = WindowBudget::ratio(f64::from(ratio) / 1_000.0);
        let budget = budget.floor(Rate::per_second(floor)).ttl(Duration::from_secs(ttl));
        let mut plan = Plan::new(budget, instances, every, sec(30));
        plan.seed = seed;
        plan.reaches = Box::new(move |index, now| !cuts.iter().any(|cut| cut.hits(index, now)));
        plan.loses = Box::new(move |index, now| losses.iter().any(|loss| loss.hits(index, now)));
        // Instances that join while a ledger has lost all members, and these are cut off, add to the bound.
        match late {
            Some(starts) => {
                plan.starts = Box::new(move |index| Time::at(starts[index] * (index as u64 % 2)));
            }
            None => plan.forgets = forgets,
        }
        plan.killed = Box::new(move |index| {
            let killed = kills.iter().find(|(killed, _)| *killed == index);
            killed.map(|(_, at)| *at).into()
        });
        let seen = run(&plan);
        let worst = worst(&plan, &seen, instances);
        prop_assert!(worst <= 1.05, "{worst}");
    }
}
