use std::time::Duration;

use redial_core::admit::budget::WindowBudget;
use redial_core::{MS, NEVER, Nanos, Rate, SECOND};

use super::world::{Plan, Seen, run};

fn budget(floor: u32) -> WindowBudget {
    WindowBudget::ratio(0.1).floor(Rate::per_second(floor)).ttl(Duration::from_secs(10))
}

/// The bound of redial_core::fleet, over every time that begins and ends with a second.
fn holds(seen: &Seen, floor: u64, until: Nanos) -> f64 {
    let seconds = (until / SECOND) as usize;
    let count = |times: &[Nanos]| {
        let mut counts = vec![0_u64; seconds + 1];
        for at in times {
            counts[((at / SECOND) as usize + 1).min(seconds)] += 1;
        }
        for i in 1..counts.len() {
            counts[i] += counts[i - 1];
        }
        counts
    };
    let (calls, retries) = (count(&seen.calls), count(&seen.retries));
    let mut worst: f64 = 0.0;
    for from in 0..seconds {
        for to in from + 1..=seconds {
            let calls = calls[to] - calls[from.saturating_sub(10)];
            let most = 0.1 * calls as f64 + (floor * (to - from + 10) as u64) as f64;
            worst = worst.max((retries[to] - retries[from]) as f64 / most);
        }
    }
    worst
}

#[test]
fn a_fleet_sends_what_its_floor_and_its_calls_allow() {
    let plan = Plan::new(budget(10), 200, 20 * SECOND, 60 * SECOND);
    let seen = run(&plan);
    let worst = holds(&seen, 10, plan.until);
    println!(
        "{} calls {} retries {} asks, worst {worst}, members {}",
        seen.calls.len(),
        seen.retries.len(),
        seen.asks.len(),
        seen.members
    );
}

#[test]
fn cut_off_and_killed() {
    let mut plan = Plan::new(budget(10), 200, SECOND, 120 * SECOND);
    plan.reaches =
        Box::new(|index, now| !(20 * SECOND..60 * SECOND).contains(&now) || index >= 100);
    plan.killed = Box::new(|index| if index % 4 == 0 { 80 * SECOND } else { NEVER });
    plan.forgets = vec![70 * SECOND];
    let seen = run(&plan);
    let worst = holds(&seen, 10, plan.until);
    println!(
        "{} calls {} retries {} asks, worst {worst}, members {}",
        seen.calls.len(),
        seen.retries.len(),
        seen.asks.len(),
        seen.members
    );
    for s in 0..12 {
        let c = seen.retries.iter().filter(|t| **t / SECOND / 10 == s).count();
        print!("{c} ");
    }
    println!();
}

#[test]
fn ten_thousand() {
    let plan = Plan::new(budget(100), 10_000, 10 * SECOND, 60 * SECOND);
    let seen = run(&plan);
    let worst = holds(&seen, 100, plan.until);
    println!(
        "{} calls {} retries {} asks, worst {worst}, members {}",
        seen.calls.len(),
        seen.retries.len(),
        seen.asks.len(),
        seen.members
    );
    for s in 0..12 {
        let c = seen.retries.iter().filter(|t| **t / SECOND / 5 == s).count();
        print!("{c} ");
    }
    println!();
    let _ = MS;
}
