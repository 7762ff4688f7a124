//! The shares that the ledger promises: all members' shares, as the members know them, never exceed one floor.

use std::task::Waker;

use proptest::prelude::*;
use redial_core::admit::Guards;
use redial_core::fleet::{Ask, GENERATION, Instance, Role, Seat, Terms};
use redial_core::{MS, Nanos, SECOND};

use super::script::Script;
use super::support::{WAIT, policy, window};

const WHOLE: u64 = 1_000_000_000;
const TERMS: Terms = Terms { ratio: 100_000, floor: 10_000_000, ttl: 10 * SECOND };
/// The end of the first generation in virtual time.
const ROLLS: Nanos = 400 * SECOND;

struct Member {
    guards: Guards,
    instance: Instance,
    /// When the last answered sync was sent.
    sent: Nanos,
}

impl Member {
    fn new(now: Nanos) -> Self {
        let guards = Guards::leased(&policy(window(10), WAIT), 1, 0, Waker::noop().clone());
        let instance = Instance::new(Role::Member, TERMS, now);
        Self { guards: guards.unwrap(), instance, sent: 0 }
    }

    /// A sync that is answered in time.
    fn asks(&mut self, script: &Script, now: Nanos) {
        self.asks_and(script, now, true);
    }

    /// A sync whose reply may be lost.
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

    /// The share that it accrues.
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
fn all_instances_get_the_same_share() {
    let script = Script::new();
    for member in fleet(&script, 4, 0) {
        assert_eq!((member.share(0), member.instance.members()), (WHOLE / 4, 4));
    }
}

/// An instance whose timeout is shorter than its round trip to Redis.
#[test]
fn an_instance_without_a_reply_takes_nothing_from_the_others() {
    let script = Script::new();
    let mut deaf = Member::new(0);
    for second in 0..20 {
        deaf.asks_and(&script, second * SECOND, false);
    }
    let members = fleet(&script, 1, 20 * SECOND);
    assert_eq!((members[0].share(20 * SECOND), members[0].instance.members()), (WHOLE, 1));
}

#[test]
fn a_reduced_share_is_not_reassigned_before_it_is_acknowledged() {
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
fn a_ledger_that_lost_its_members_reserves_their_shares() {
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
    assert_eq!(stays.share(later), WHOLE, "the share of the other has expired as well");
}

/// It promises the floor to the first instance, and withdraws it when it learns of other members.
#[test]
fn a_ledger_may_learn_late_that_it_lost_its_members() {
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

/// One token a second is deposited, and kept for ten sixteenths of 10 s.
#[test]
fn a_clock_set_back_extends_no_lease() {
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
    /// The first sync after the loss is from a member; from a new instance the ledger could not learn of the loss.
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
                    // Two ledgers created in the same microsecond cannot be distinguished.
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
