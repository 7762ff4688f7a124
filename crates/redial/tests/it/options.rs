use std::sync::Mutex;

use redial::decide::Class;
use redial::{CancelToken, Event, Key, Policy, Preset, Retry, Stop, testing};

use crate::support::{Fault, Log, RESET, ms, plain, unbounded};

fn attempts<C>(retry: &Retry<C>) -> (u32, Stop)
where
    C: redial::decide::Classifier<(), Fault>,
{
    let error = retry.run_blocking(|_| Err::<(), _>(RESET)).unwrap_err();
    (error.attempts(), error.reason())
}

#[tokio::test(start_paused = true)]
async fn a_key_is_the_same_on_every_attempt_and_new_for_every_call() {
    let retry = Retry::new(unbounded(|p| p)).keyed();
    let keys = Mutex::new(Vec::new());
    for _ in 0..2 {
        let note = |attempt: redial::Attempt| {
            keys.lock().unwrap().push(attempt.key().unwrap());
            async { Err::<(), _>(RESET) }
        };
        retry.run(note).await.unwrap_err();
    }
    let keys = keys.into_inner().unwrap();
    assert_eq!(keys.len(), 8);
    assert!(keys[..4].iter().all(|key| *key == keys[0]));
    assert!(keys[4..].iter().all(|key| *key == keys[4]));
    assert_ne!(keys[0], keys[4]);

    let kept = Key::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    let given = retry.key(kept).run(|attempt| async move { Ok::<_, Fault>(attempt.key()) }).await;
    assert_eq!(given, Ok(Some(kept)));
    assert_eq!(kept.to_string(), "01234567-89ab-cdef-0123-456789abcdef");
    let text = Key::fresh().to_string();
    assert_eq!((text.len(), &text[14..15]), (36, "4"), "a UUID of version 4");
    assert!("89ab".contains(&text[19..20]), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_knows_how_the_one_before_failed() {
    let retry = Retry::new(plain(|p| p)).idempotent();
    let refreshed = retry
        .run(|attempt| async move {
            match attempt.previous() {
                None => Err(Fault(Class::Connect, "this endpoint is down")),
                Some(failure) if failure.class == Class::Connect => Ok("another endpoint"),
                Some(_) => Ok("the same endpoint"),
            }
        })
        .await;
    assert_eq!(refreshed, Ok("another endpoint"));
}

#[test]
fn retries_can_be_switched_off_while_it_runs() {
    let retry = Retry::new(Preset::Player.draft().attempts(2).build().unwrap()).idempotent();
    let clone = retry.clone().cooldown_key("segment 1");
    retry.set_enabled(false);
    assert_eq!(attempts(&clone), (1, Stop::SwitchedOff));
    retry.set_enabled(true);
    let token = CancelToken::new();
    let error =
        clone.run_blocking_with(
            &token,
            |attempt| {
                if attempt.number() == 2 { Ok(()) } else { Err(RESET) }
            },
        );
    assert_eq!(error, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn switching_off_reaches_calls_that_wait() {
    let retry = Retry::new(plain(|p| p)).idempotent();
    let call = tokio::spawn({
        let retry = retry.clone();
        async move { retry.run(|_| async { Err::<(), _>(RESET) }).await }
    });
    tokio::task::yield_now().await;
    retry.set_enabled(false);
    assert!(!retry.is_enabled());
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Stop::SwitchedOff));
}

#[test]
fn a_predicate_keeps_what_was_said_about_safety_and_outranks_the_list() {
    let _fast = redial::testing::skip_waits(2);
    let retry = Retry::new(Preset::PaymentProcessor.into()).keyed();
    let error = retry.retry_if(|_: &Fault| true).run_blocking(|_| Err::<(), _>(RESET));
    assert_eq!(error.unwrap_err().attempts(), 2);
}

#[test]
fn overlapping_tests_do_not_disturb_each_other() {
    use redial::testing::{skip_waits, skip_waits_everywhere};
    let retry = Retry::new(unbounded(|p| p)).idempotent();
    let made = |retry: &Retry| attempts(retry).0;
    let (first, second) = (skip_waits(2), skip_waits(3));
    assert_eq!(made(&retry), 2, "the smallest counts");
    drop(first);
    assert_eq!(made(&retry), 3, "whatever the order in which they end");
    let (one, two) = (skip_waits_everywhere(1), skip_waits_everywhere(2));
    assert_eq!(made(&retry), 1);
    drop(one);
    assert_eq!(made(&retry), 2);
    drop((two, second));
    let replaced = std::mem::replace(&mut skip_waits(4), skip_waits(2));
    assert_eq!(made(&retry), 4);
    drop(replaced);
}

#[test]
fn a_deadline_of_another_millennium_is_far_away() {
    let far = std::time::Instant::now() + std::time::Duration::from_secs(1_000 * 366 * 86_400);
    let retry = Retry::new(plain(|p| p)).deadline_at(far);
    assert!(retry.run_blocking(|_| Ok::<_, Fault>(())).is_ok());
}

#[tokio::test(start_paused = true)]
async fn one_retry_for_the_same_key() {
    let policy = Policy::from(Preset::Player);
    let retry = Retry::new(policy).idempotent();
    let ask = |segment: &'static str| {
        let retry = retry.clone().cooldown_key(segment);
        async move { retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err().reason() }
    };
    assert_eq!(ask("a").await, Stop::Attempts);
    assert_eq!(ask("a").await, Stop::CoolDown);
    assert_eq!(ask("b").await, Stop::Attempts);
}

#[test]
fn destinations_do_not_share_their_guards() {
    let retry = Retry::new(Policy::standard());
    let fresh = retry.balance();
    let (bad, good) = (retry.clone().scope("bad:443"), retry.clone().scope("good:443"));
    let _fast = testing::skip_waits(4);
    while fails(&bad) != Stop::Budget {}
    assert_eq!([bad.balance(), good.balance(), retry.balance()], [Some(0), fresh, fresh]);
    assert_eq!(retry.scope(String::from("bad:443")).balance(), Some(0));
}

#[test]
fn the_first_1024_destinations_have_guards_of_their_own() {
    let retry = Retry::new(Policy::standard());
    let scopes: Vec<_> = (0..1026).map(|n| retry.clone().scope(n.to_string())).collect();
    let _fast = testing::skip_waits(2);
    let fresh = retry.balance();
    assert_eq!(fails(&scopes[1025]), Stop::Attempts);
    let balances = [0, 1023, 1024, 1025].map(|index: usize| scopes[index].balance());
    assert_eq!(balances[..2], [fresh, fresh]);
    assert!(balances[2] < fresh && balances[2] == balances[3], "{balances:?}");
}

fn fails(retry: &Retry) -> Stop {
    let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    retry.run_blocking(|_| Err::<(), _>(refused())).unwrap_err().reason()
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_the_whole_call() {
    let log = Log::default();
    let retry = Retry::new(unbounded(|p| p.attempts(2))).idempotent().observe(log.clone());
    retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
    let failure = redial::decide::Classify::classify(&RESET);
    let ended = |number| Event::AttemptEnded { number, taken: ms(0), outcome: failure.into() };
    let failure = Some(failure);
    assert_eq!(
        log.take(),
        [
            Event::Attempt { number: 1, hedge: false },
            ended(1),
            Event::RetryScheduled { attempt: 2, delay: ms(100), failure },
            Event::Attempt { number: 2, hedge: false },
            ended(2),
            Event::Stopped { reason: Stop::Attempts, attempts: 2 },
        ]
    );
}

#[test]
fn a_policy_can_come_from_text() {
    let policy: Policy = serde_json::from_str(r#"{"attempts": 2, "deadline": "1s"}"#).unwrap();
    assert_eq!(Retry::new(policy).policy().attempts(), 2);
    let error = serde_json::from_str::<Policy>(r#"{"attempts": 0}"#).unwrap_err().to_string();
    assert!(error.starts_with("attempts is 0, but must be from 1 to 1000000"), "{error}");
}
