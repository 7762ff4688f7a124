//! Any text: it is a policy file that is the same when printed and parsed again and whose policies drive a call without a
//! panic, or it is an error with a span in the text.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use redial_core::admit::Guards;
use redial_core::decide::{Class, Failure, Outcome, Safety};
use redial_core::schedule::Hint;
use redial_core::{Call, Context, Deadline, Policy, Request, Span, Time, Verdict};
use redial_policy::file::File;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |byte| *byte == 0);
    let (text, outcomes) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(text) = std::str::from_utf8(text) else { return };
    let file = match File::read(text) {
        Ok(file) => file,
        Err(problem) => {
            assert!(problem.span.is_none_or(|span| text.get(span.range()).is_some()));
            assert!(problem.to_string().chars().count() < 2000);
            return;
        }
    };
    let printed = file.to_toml();
    assert_eq!(File::read(&printed).expect(&printed), file);
    for named in file.policies.iter().take(3) {
        if named.policy.attempts() <= 1000 {
            named.policy.worst_case();
        }
        drive(&named.policy, outcomes);
    }
});

/// Each outcome is nine bytes: its kind, and a number.
fn drive(policy: &Policy, outcomes: &[u8]) {
    let guards = Guards::new(policy, 1, 1);
    let request = Request { safety: Safety::Keyed, ..Request::default() };
    let cx = Context { policy, guards: &guards, observer: None, request };
    let mut now = Time::ZERO;
    let mut call = Call::new(policy, now, Deadline::NONE);
    for (kind, number) in outcomes.chunks_exact(9).map(outcome_of) {
        let Ok(permit) = call.admit(&cx, now) else { return };
        assert!(permit.expires >= now.into());
        let sent = now;
        now += Span::from_nanos(number % 10_000_000_000);
        if kind & 4 != 0 && call.hedge_at(&cx, sent).is_some_and(|due| due <= now) {
            match call.hedge(&cx, sent, now) {
                Ok(hedge) => call.abandon(&cx, hedge, now),
                Err(refused) => assert!(refused.again.is_none_or(|again| again > now)),
            }
        }
        let outcome = match kind % 4 {
            0 => Outcome::Success,
            1 => Outcome::NotYet(Some(Hint::AtLeast(Duration::from_nanos(number)))),
            2 => Failure::new(Class::Timeout).into(),
            _ => Failure::new(Class::Throttled)
                .hint(Hint::AtLeast(Duration::from_nanos(number)))
                .into(),
        };
        match call.settle(&cx, permit, &outcome, now, || number) {
            Verdict::Wait(until) => {
                assert!(until >= now && !call.deadline().is_over(until));
                now = until;
            }
            Verdict::Done | Verdict::InFlight | Verdict::Stop(_) => return,
        }
    }
    call.cancel(&cx, now);
}

fn outcome_of(bytes: &[u8]) -> (u8, u64) {
    let number = bytes[1..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    (bytes[0], number)
}
