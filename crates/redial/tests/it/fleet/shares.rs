//! The shares that the ledger promises: all members' shares, as the members know them, never exceed one floor.

use std::task::Waker;

use proptest::prelude::*;
use redial_core::admit::Guards;
use redial_core::fleet::{Ask, FleetTerms, GENERATION, Instance, Role, Seat};
use redial_core::{Span, Time};

use super::script::Script;
use super::support::{SECOND, WAIT, policy, sec, spans, window};

const WHOLE: u64 = 1_000_000_000;
const TERMS: FleetTerms =
    FleetTerms { ratio: 100_000, floor: 10_000_000, ttl: Span::from_secs(10) };
/// The end of the first generation in virtual time.
const ROLLS: Time = sec(400);

struct Member {
    guards: Guards,
    instance: Instance,
    /// When the last answered sync was sent.
    sent: Time,
}

impl Member {
    fn new(now: Time) -> Self {
        let guards = Guards::leased(&policy(window(10), WAIT), 1, 0, Waker::noop().clone());
        let instance = Instance::new(Role::Member, TERMS, now);
        Self { guards: guards.unwrap(), instance, sent: Time::ZERO }
    }

    /// A sync that is answered in time.
    fn asks(&mut self, script: &Script, now: Time) {
        self.asks_and(script, now, true);
    }

    /// A sync whose reply may be lost.
    fn asks_and(&mut self, script: &Script, now: Time, arrives: bool) {
        let lease = self.guards.lease().unwrap();
        let ask = self.instance.ask(lease, now);
        let grant = script.ask(&ask, now);
        if arrives {
            self.instance.answered(lease, &ask, &grant, now, now);
            self.sent = now;
        } else {
            self.instance.failed(lease, now);
        }
    }

    /// The share that it accrues.
    fn share(&self, now: Time) -> u64 {
        if now < self.sent + GENERATION { self.instance.share() } else { 0 }
    }
}

/// Members that know their shares.
fn fleet(script: &Script, count: usize, now: Time) -> Vec<Member> {
    let mut members: Vec<Member> = (0..count).map(|_| Member::new(now)).collect();
    for _ in 0..6 {
        members.iter_mut().for_each(|member| member.asks(script, now));
    }
    members
}

#[test]
fn all_instances_get_the_same_share() {
    let script = Script::new();
    for member in fleet(&script, 4, Time::ZERO) {
        assert_eq!((member.share(Time::ZERO), member.instance.members()), (WHOLE / 4, 4));
    }
}

/// An instance whose timeout is shorter than its round trip to Redis.
#[test]
fn an_instance_without_a_reply_takes_nothing_from_the_others() {
    let script = Script::new();
    let mut deaf = Member::new(Time::ZERO);
    for second in 0..20 {
        deaf.asks_and(&script, sec(second), false);
    }
    let members = fleet(&script, 1, sec(20));
    assert_eq!((members[0].share(sec(20)), members[0].instance.members()), (WHOLE, 1));
}

#[test]
fn a_reduced_share_is_not_reassigned_before_it_is_acknowledged() {
    let script = Script::new();
    let mut first = fleet(&script, 1, Time::ZERO).remove(0);
    assert_eq!(first.share(Time::ZERO), WHOLE);
    let mut second = Member::new(Time::ZERO);
    for step in 0..20 {
        let now = sec(step);
        first.asks_and(&script, now, false);
        second.asks(&script, now);
        assert!(first.share(now) + second.share(now) <= WHOLE);
    }
    for step in 20..24 {
        first.asks(&script, sec(step));
        second.asks(&script, sec(step));
    }
    assert_eq!([&first, &second].map(|it| it.share(sec(24))), [WHOLE / 2, WHOLE / 2]);
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
    let mut members = fleet(&script, 2, Time::ZERO);
    script.forget();
    let now = sec(1);
    let mut first = fleet(&script, 1, now).remove(0);
    assert_eq!(first.share(now), WHOLE);
    for second in 2..100 {
        let now = sec(second);
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
    let terms = FleetTerms { floor: 0, ..TERMS };
    let seat = Seat::default();
    let role = Role::OneShot;
    let ask = Ask { role, leaves: false, seat, members: 0, terms, deposit: 1_000_000, want: 0 };
    for back in [SECOND / 2, 5 * SECOND, 9 * SECOND, 20 * SECOND] {
        for second in 0..20 {
            script.ask(&ask, sec(100 + second));
        }
        for second in 0..20 {
            let now = sec(120 + second) - back;
            let balance = script.ask(&ask, now).balance;
            assert!(balance <= 8_000_000, "{balance} after {second} s");
        }
        script.forget();
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Asks(usize, bool),
    Passes(Span),
    Forgets,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..5_usize, prop::bool::weighted(0.7)).prop_map(|(who, arrives)| Step::Asks(who, arrives)),
        4 => spans(Span::ZERO..3 * SECOND).prop_map(Step::Passes),
        1 => spans(Span::ZERO..700 * SECOND).prop_map(Step::Passes),
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
        let (mut now, mut members) = (Time::ZERO, fleet(&script, count, Time::ZERO));
        members.push(Member::new(Time::ZERO));
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
                    now += Span::MILLISECOND;
                    let knows = members.iter_mut().find(|member| member.share(now) > 0);
                    knows.into_iter().for_each(|member| member.asks(&script, now));
                }
            }
            let shares: u64 = members.iter().map(|member| member.share(now)).sum();
            prop_assert!(shares <= WHOLE, "{shares} at {now:?}");
        }
    }
}
