//! What the ledger promises its members: the shares of all of them, as they know them, are never more than one floor.

use std::task::Waker;

use proptest::prelude::*;
use redial_core::admit::Guards;
use redial_core::fleet::{Ask, GENERATION, Instance, Role, Seat, Terms};
use redial_core::{MS, Nanos, SECOND};

use super::rig::{WAIT, policy, window};
use super::script::Script;

const WHOLE: u64 = 1_000_000_000;
const TERMS: Terms = Terms { ratio: 100_000, floor: 10_000_000, ttl: 10 * SECOND };
/// The first generation of virtual time ends then.
const ROLLS: Nanos = 400 * SECOND;

struct Member {
    guards: Guards,
    instance: Instance,
    /// When the ask left that was last answered.
    sent: Nanos,
}

impl Member {
    fn new(now: Nanos) -> Self {
        let guards = Guards::leased(&policy(window(10), WAIT), 1, 0, Waker::noop().clone());
        let instance = Instance::new(Role::Member, TERMS, now);
        Self { guards: guards.unwrap(), instance, sent: 0 }
    }

    /// An ask that is answered when it should be.
    fn asks(&mut self, script: &Script, now: Nanos) {
        self.asks_and(script, now, true);
    }

    /// An ask whose answer may be lost on its way.
    fn asks_and(&mut self, script: &Script, now: Nanos, arrives: bool) {
        let lease = self.guards.lease().unwrap();
        let ask = self.instance.ask(lease, now);
        let answer = script.ask(&ask, now);
        if arrives {
            self.instance.answered(lease, &ask, &answer, now, now);
            self.sent = now;
        } else {
            self.instance.failed(lease, now);
        }
    }

    /// What it accrues.
    fn share(&self, now: Nanos) -> u64 {
        if now < self.sent + GENERATION { self.instance.share() } else { 0 }
    }
}

/// Members that know their shares.
fn fleet(script: &Script, count: usize, now: Nanos) -> Vec<Member> {
    let mut members: Vec<Member> = (0..count).map(|_| Member::new(now)).collect();
    for _ in 0..6 {
        members.iter_mut().for_each(|member| member.asks(script, now));
    }
    members
}

#[test]
fn all_get_the_same_share() {
    let script = Script::new();
    for member in fleet(&script, 4, 0) {
        assert_eq!((member.share(0), member.instance.members()), (WHOLE / 4, 4));
    }
}

/// One whose time-out is too short for its way to Redis.
#[test]
fn whoever_never_hears_an_answer_takes_nothing_from_the_others() {
    let script = Script::new();
    let mut deaf = Member::new(0);
    for second in 0..20 {
        deaf.asks_and(&script, second * SECOND, false);
    }
    let members = fleet(&script, 1, 20 * SECOND);
    assert_eq!((members[0].share(20 * SECOND), members[0].instance.members()), (WHOLE, 1));
}

#[test]
fn a_smaller_share_is_not_given_to_others_before_it_is_heard_of() {
    let script = Script::new();
    let mut first = fleet(&script, 1, 0).remove(0);
    assert_eq!(first.share(0), WHOLE);
    let mut second = Member::new(0);
    for step in 0..20 {
        let now = step * SECOND;
        first.asks_and(&script, now, false);
        second.asks(&script, now);
        assert!(first.share(now) + second.share(now) <= WHOLE);
    }
    for step in 20..24 {
        first.asks(&script, step * SECOND);
        second.asks(&script, step * SECOND);
    }
    assert_eq!([&first, &second].map(|it| it.share(24 * SECOND)), [WHOLE / 2, WHOLE / 2]);
}

#[test]
fn a_ledger_that_lost_its_members_remembers_their_promises_for_as_long_as_they_do() {
    let script = Script::new();
    let mut members = fleet(&script, 2, ROLLS - 10 * SECOND);
    script.forget();
    let mut stays = members.remove(0);
    for second in 0..500 {
        let now = ROLLS - 2 * SECOND + second * SECOND;
        stays.asks(&script, now);
        assert!(stays.share(now) + members[0].share(now) <= WHOLE, "{second} s");
    }
    let later = ROLLS + 2 * GENERATION;
    for _ in 0..2 {
        stays.asks(&script, later);
    }
    assert_eq!(stays.share(later), WHOLE, "the other has forgotten its share too");
}

/// It gives the floor to the first who comes, and takes it back when it hears that there were others.
#[test]
fn a_ledger_that_lost_its_members_hears_of_it_late() {
    let script = Script::new();
    let mut members = fleet(&script, 2, 0);
    script.forget();
    let now = SECOND;
    let mut first = fleet(&script, 1, now).remove(0);
    assert_eq!(first.share(now), WHOLE);
    for second in 2..100 {
        let now = second * SECOND;
        members[0].asks(&script, now);
        first.asks(&script, now);
        let shares = first.share(now) + members[0].share(now) + members[1].share(now);
        assert!(shares <= WHOLE, "{shares} after {second} s");
    }
}

/// A token is deposited every second, and banked for ten sixteenths of ten seconds.
#[test]
fn a_clock_that_is_set_back_keeps_nothing_for_longer() {
    let script = Script::new();
    let terms = Terms { floor: 0, ..TERMS };
    let seat = Seat::default();
    let role = Role::OneShot;
    let ask = Ask { role, leaves: false, seat, members: 0, terms, deposit: 1_000_000, want: 0 };
    for back in [SECOND / 2, 5 * SECOND, 9 * SECOND, 20 * SECOND] {
        for second in 0..20 {
            script.ask(&ask, 100 * SECOND + second * SECOND);
        }
        for second in 0..20 {
            let now = 120 * SECOND - back + second * SECOND;
            let balance = script.ask(&ask, now).balance;
            assert!(balance <= 8_000_000, "{balance} after {second} s");
        }
        script.forget();
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Asks(usize, bool),
    Passes(Nanos),
    Forgets,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..5_usize, prop::bool::weighted(0.7)).prop_map(|(who, arrives)| Step::Asks(who, arrives)),
        4 => (0..3_000 * MS).prop_map(Step::Passes),
        1 => (0..700 * SECOND).prop_map(Step::Passes),
        1 => Just(Step::Forgets),
    ]
}

proptest! {
    /// A ledger that was lost first hears of somebody who knows it; of newcomers it would not know that it was lost.
    #[test]
    fn shares_are_never_more_than_one_floor(
        count in 1..5_usize,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let script = Script::new();
        let (mut now, mut members) = (0, fleet(&script, count, 0));
        members.push(Member::new(0));
        for step in steps {
            match step {
                Step::Asks(who, arrives) => {
                    let who = who % members.len();
                    members[who].asks_and(&script, now, arrives);
                }
                Step::Passes(time) => now += time,
                Step::Forgets => {
                    script.forget();
                    // Two ledgers that begin in the same microsecond cannot be told apart.
                    now += MS;
                    let knows = members.iter_mut().find(|member| member.share(now) > 0);
                    knows.into_iter().for_each(|member| member.asks(&script, now));
                }
            }
            let shares: u64 = members.iter().map(|member| member.share(now)).sum();
            prop_assert!(shares <= WHOLE, "{shares} at {now}");
        }
    }
}
