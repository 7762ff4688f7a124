//! Calls that are alone in their process: no other call brings evidence.

use redial_core::admit::ParkRule;
use redial_core::decide::{Class, Failure};
use redial_core::{Call, Span, Stop, Time, Turn, Verdict};

use super::Site;
use crate::support::{MS, NS, SECOND, at};

impl Site {
    /// Waits for the turn of a parked call that nothing else happens beside. Returns when it is, or why there is none.
    fn turn(&self, call: &mut Call, from: Time) -> Result<Time, Stop> {
        let mut now = from;
        loop {
            match self.ask(call, now).0 {
                Turn::Go => return Ok(now),
                Turn::Wait(until) => now = until.time().unwrap().max(now + NS),
                Turn::Stop(stop) => return Err(stop),
            }
        }
    }

    /// When the attempts of a call are sent that is alone in its process and fails again and again after `taken`.
    fn alone(&self, start: Time, class: Class, taken: Span) -> (Vec<Span>, Stop) {
        let (mut sent, mut times) = (start, vec![Span::ZERO]);
        let (mut call, mut verdict) = self.fail_as(class, sent, sent + taken);
        loop {
            match verdict {
                Verdict::Wait(until) => match self.turn(&mut call, until) {
                    Ok(now) => sent = now,
                    Err(stop) => return (times, stop),
                },
                Verdict::Stop(stop) => return (times, stop),
                _ => panic!("{verdict:?}"),
            }
            times.push(sent - start);
            let permit = call.admit(&self.cx(), sent).unwrap();
            let outcome = Failure::new(class).into();
            verdict = call.settle(&self.cx(), permit, &outcome, sent + taken, || 0);
        }
    }
}

#[test]
fn a_new_process_makes_the_attempts_of_its_policy() {
    for (class, taken) in
        [(Class::Overloaded, MS), (Class::Timeout, 100 * MS), (Class::Timeout, SECOND)]
    {
        let (times, stop) = Site::new(ParkRule::default()).alone(at(SECOND), class, taken);
        assert_eq!((times.len(), stop), (4, Stop::Attempts), "{class:?} {taken}: {times:?}");
        assert!(*times.last().unwrap() + taken <= 10 * SECOND, "{times:?}");
    }
}

#[test]
fn a_timeout_that_leaves_no_room_is_not_repeated_by_a_lone_call() {
    let (times, stop) =
        Site::new(ParkRule::default()).alone(at(SECOND), Class::Timeout, 2 * SECOND);
    assert_eq!((times.len(), stop), (1, Stop::Budget));
}

#[test]
fn after_a_success_a_lone_call_has_what_was_earned() {
    let site = Site::new(ParkRule::default());
    site.succeed(Time::ZERO, at(MS));
    let (times, stop) = site.alone(at(SECOND), Class::Overloaded, MS);
    assert_eq!((times.len(), stop), (2, Stop::Budget), "{times:?}");
}

#[test]
fn a_job_that_runs_now_and_then_makes_the_attempts_of_its_policy_except_after_timeouts() {
    let attempts = |successes: u64, class| {
        let site = Site::new(ParkRule::default());
        (0..successes).for_each(|n| site.succeed(at(n * MS), at(n * MS + MS)));
        let (times, stop) = site.alone(at(120 * SECOND), class, MS);
        assert!(times.windows(2).all(|pair| pair[0] + 50 * MS < pair[1]), "spread out: {times:?}");
        (times.len(), stop)
    };
    assert_eq!(attempts(1, Class::Overloaded), (4, Stop::Attempts));
    assert_eq!(attempts(19, Class::Overloaded), (4, Stop::Attempts), "the reserve is left");
    assert_eq!(attempts(20, Class::Overloaded), (3, Stop::Budget), "two retries are earned");
    assert_eq!(attempts(40, Class::Overloaded), (4, Stop::Attempts), "three");
    assert_eq!(attempts(1, Class::Timeout), (1, Stop::Budget));
}
