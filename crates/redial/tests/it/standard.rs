//! What the default policy does that others do not: retries earn their budget, attempts that were overtaken are hedged, and
//! calls are held back from a destination that answers nothing.

use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use redial::{Attempt, Policy, Retry, Stop};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Fault, RESET, ms, stalled};

fn standard() -> Retry {
    Retry::new(Policy::standard()).idempotent()
}

/// Fails so many attempts, then succeeds.
async fn fails_first(retry: &Retry, failures: u32) -> Result<u32, (u32, Stop)> {
    let op = |attempt: Attempt| async move {
        if attempt.number() <= failures { Err(RESET) } else { Ok(attempt.number()) }
    };
    retry.run(op).await.map_err(|error| (error.attempts(), error.reason()))
}

#[tokio::test(start_paused = true)]
async fn the_first_five_calls_of_a_process_can_each_fail_once() {
    let retry = standard();
    for _ in 0..5 {
        assert_eq!(fails_first(&retry, 1).await, Ok(2));
    }
    assert_eq!(retry.balance(), Some(3), "of the opening 20, each has paid 20 and earned 30");
}

#[tokio::test(start_paused = true)]
async fn the_first_call_of_a_process_can_fail_twice() {
    assert_eq!(fails_first(&standard(), 2).await, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn a_new_process_makes_three_retries_in_an_outage() {
    let retry = standard();
    assert_eq!(fails_first(&retry, 9).await, Err((4, Stop::Attempts)));
    for _ in 0..100 {
        assert_eq!(fails_first(&retry, 9).await, Err((1, Stop::Budget)));
    }
    sleep(Duration::from_secs(30)).await;
    assert_eq!(fails_first(&retry, 9).await, Err((2, Stop::Budget)), "the floor");
}

#[tokio::test(start_paused = true)]
async fn failures_that_are_unsafe_to_repeat_cost_nothing() {
    let retry = Retry::new(Policy::standard());
    for _ in 0..100 {
        assert_eq!(fails_first(&retry, 9).await, Err((1, Stop::Unsafe)));
    }
    assert_eq!(fails_first(&retry.idempotent(), 2).await, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn not_yet_is_neither_a_success_nor_a_failure() {
    let policy = Policy::standard().edit().attempts(100).without_deadline().build().unwrap();
    let retry = Retry::new(policy).idempotent();
    let fresh = retry.balance();
    let polls = retry.clone().until(|done: &bool| *done);
    let error = polls.run(|_| async { Ok::<_, Fault>(false) }).await.unwrap_err();
    assert_eq!((error.attempts(), retry.balance()), (100, fresh));
    assert_eq!(fails_first(&retry, 2).await, Ok(3), "the bootstrap ends with the first success");
}

/// A call whose first attempt takes this long, and whose others are ready at once. Returns the attempt that succeeded, and when.
async fn slow(retry: &Retry, first: Duration) -> Result<(u32, Duration), Stop> {
    let started = Instant::now();
    let op = |attempt: Attempt| async move {
        if attempt.number() == 1 {
            sleep(first).await;
        }
        Ok::<_, Fault>(attempt.number())
    };
    let answer = retry.run(op).await.map_err(|error| error.reason())?;
    Ok((answer, started.elapsed()))
}

const HANGS: Duration = Duration::from_secs(3_600);

/// A call that is answered at once, sent after so much time.
async fn quick(retry: &Retry, at: Duration) {
    sleep(at).await;
    assert!(retry.run(|_| async { Ok::<_, Fault>(()) }).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_hedged_once_a_later_one_has_succeeded() {
    // It is looked at after a third of the deadline, and then after each further quarter of its time in flight.
    for (overtaken_at, hedged_at) in [(100, 3_334), (3_400, 4_168), (5_000, 5_210)] {
        let retry = standard();
        let (answer, ()) = tokio::join!(slow(&retry, HANGS), quick(&retry, ms(overtaken_at)));
        let (attempt, taken) = answer.unwrap();
        assert_eq!(attempt, 2);
        assert!(ms(hedged_at - 2) <= taken && taken <= ms(hedged_at + 2), "{taken:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_not_overtaken_is_not_hedged() {
    let retry = standard();
    quick(&retry, ms(0)).await;
    sleep(ms(1)).await;
    assert_eq!(slow(&retry, HANGS).await, Err(Stop::Deadline), "nothing succeeded after it");
    let failures = async {
        sleep(ms(100)).await;
        fails_first(&retry, 9).await.unwrap_err();
    };
    let (answer, ()) = tokio::join!(slow(&retry, ms(9_000)), failures);
    assert_eq!(answer, Ok((1, ms(9_000))));
}

#[tokio::test(start_paused = true)]
async fn not_yet_overtakes_nothing() {
    let retry = standard();
    let polls = async {
        let polls = retry.clone().until(|done: &bool| *done);
        sleep(ms(1_000)).await;
        assert!(polls.run(|_| async { Ok::<_, Fault>(false) }).await.is_err());
    };
    let (answer, ()) = tokio::join!(slow(&retry, ms(9_000)), polls);
    assert_eq!(answer, Ok((1, ms(9_000))));
}

#[tokio::test(start_paused = true)]
async fn an_unsafe_call_is_never_hedged() {
    let retry = Retry::new(Policy::standard());
    for retry in [retry.clone(), retry.conditional()] {
        let (answer, ()) = tokio::join!(slow(&retry, ms(9_000)), quick(&retry, ms(100)));
        assert_eq!(answer, Ok((1, ms(9_000))));
    }
}

#[tokio::test(start_paused = true)]
async fn calls_with_an_observer_are_hedged_too_and_those_with_a_key_are_not() {
    let observed = standard().observe(|_: &redial::Event| {});
    let (answer, ()) = tokio::join!(slow(&observed, HANGS), quick(&observed, ms(100)));
    assert_eq!(answer.unwrap().0, 2);

    let keyed = Retry::new(Policy::standard()).keyed();
    let (answer, ()) = tokio::join!(slow(&keyed, HANGS), quick(&keyed, ms(100)));
    assert!(answer.is_err(), "a server may refuse a key that is in use");
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_hangs_is_hedged_like_a_first_attempt() {
    let retry = standard();
    let op = |attempt: Attempt| async move {
        match attempt.number() {
            1 => Err(RESET),
            2 => pending().await,
            n => Ok(n),
        }
    };
    let others = async {
        for _ in 0..60 {
            quick(&retry, ms(100)).await;
        }
    };
    let (answer, ()) = tokio::join!(retry.run(op), others);
    assert_eq!(answer, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn a_hedge_that_wins_earns_and_one_that_loses_has_cost() {
    let won = standard();
    let (answer, ()) = tokio::join!(slow(&won, HANGS), quick(&won, ms(100)));
    assert_eq!((answer.unwrap().0, won.balance()), (2, Some(1)), "20 + 1 - 20 + 30 tokens");

    let lost = standard();
    let op = |attempt: Attempt| async move {
        sleep(if attempt.number() == 1 { ms(6_000) } else { HANGS }).await;
        Ok::<_, Fault>(attempt.number())
    };
    let (answer, ()) = tokio::join!(lost.run(op), quick(&lost, ms(100)));
    assert_eq!((answer, lost.balance()), (Ok(1), Some(0)), "20 + 1 - 20 + 1 tokens");
}

#[tokio::test(start_paused = true)]
async fn a_race_that_is_dropped_ends_its_attempts() {
    let (retry, attempts) = (standard(), Rc::new(()));
    let hang = |_| {
        let held = Rc::clone(&attempts);
        async move { pending::<Result<Rc<()>, Fault>>().await.map(|_| held) }
    };
    let race = timeout(ms(5_000), retry.run(hang));
    let look = async {
        quick(&retry, ms(100)).await;
        sleep(ms(4_000)).await;
        Rc::strong_count(&attempts)
    };
    let (race, racing) = tokio::join!(race, look);
    assert!(race.is_err());
    assert_eq!((racing, Rc::strong_count(&attempts)), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn sixty_percent_of_the_calls_are_refused_after_a_silence_and_none_after_a_success() {
    let draft = Policy::standard().edit().attempts(1).attempt_timeout(ms(100));
    let retry = Retry::new(draft.build().unwrap());
    let hang = async || {
        let error = retry.run(|_| pending::<Result<(), Fault>>()).await.unwrap_err();
        assert_eq!(error.attempts(), 1);
    };
    let refused = async |calls: u32| {
        let mut refused = 0;
        for _ in 0..calls {
            // An answer, but not a success.
            let error = retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
            refused += u32::from(error.reason() == Stop::Stalled);
        }
        refused
    };
    for _ in 0..4 {
        hang().await;
    }
    assert_eq!(refused(1_000).await, 0, "four timeouts are too few");
    hang().await;
    let most = refused(1_000).await;
    assert!((500..=700).contains(&most), "{most}");
    while retry.run(|_| async { Ok::<_, Fault>(()) }).await.is_err() {}
    assert_eq!(refused(1_000).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_says_that_the_destination_is_stalled() {
    let retry = stalled().await;
    let error = retry.run(|_| async { Ok::<_, Fault>(()) }).await.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (Stop::Stalled, 0));
    assert_eq!(
        error.to_string(),
        "gave up before the first attempt: only timeouts come back, so some calls are not sent"
    );
}
