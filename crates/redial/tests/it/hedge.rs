use std::cell::Cell;

use redial::admit::budget::WindowBudget;
use redial::decide::Class;
use redial::schedule::HedgeRule;
use redial::{Draft, Retry, RetryBudget, Span, Stop};
use tokio::time::{Instant, sleep};

use crate::support::{Fault, Log, RESET, ms, plain, unbounded};

/// With hedges after so many milliseconds.
fn after(delay: u64) -> impl FnOnce(Draft) -> Draft {
    move |p| p.hedge(HedgeRule::after(ms(delay)))
}

/// Attempt n takes the n-th time; how many were dropped before their end.
struct Dropped<'a>(&'a Cell<u32>);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_success_wins_and_the_loser_is_dropped() {
    let retry = Retry::new(unbounded(after(50))).idempotent();
    let (start, dropped) = (Instant::now(), Cell::new(0));
    let winner = retry
        .run(|attempt| {
            let dropped = &dropped;
            async move {
                let guard = Dropped(dropped);
                sleep(ms(if attempt.number() == 1 { 5_000 } else { 30 })).await;
                std::mem::forget(guard);
                Ok::<_, Fault>(attempt.number())
            }
        })
        .await;
    assert_eq!((winner, dropped.get(), start.elapsed()), (Ok(2), 1, ms(80)));
}

#[tokio::test(start_paused = true)]
async fn a_quick_answer_is_not_hedged() {
    let log = Log::default();
    let retry = Retry::new(unbounded(after(50))).idempotent().observe(log.clone());
    let answer = retry
        .run(|attempt| async move {
            sleep(ms(40)).await;
            Ok::<_, Fault>(attempt.number())
        })
        .await;
    assert_eq!((answer, log.take().len()), (Ok(1), 3), "one attempt, its end, one success");
}

#[tokio::test(start_paused = true)]
async fn hedges_and_retries_draw_on_one_ledger() {
    let budget = RetryBudget::new(WindowBudget::ratio(0.1)).unwrap();
    let rule = HedgeRule::after(ms(10)).at_most(9);
    let retry = Retry::new(plain(|p| p.hedge(rule))).idempotent().budget(&budget);
    let slow = |_| async {
        sleep(ms(100)).await;
        Err::<(), _>(RESET)
    };
    let error = retry.run(slow).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (4, Stop::Attempts));
    assert_eq!(retry.balance(), Some(7));
    while budget.try_withdraw() {}
    let error = retry.run(slow).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Stop::Budget), "no hedge, and no retry");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_safe_is_not_hedged() {
    let retry = Retry::new(unbounded(after(1)));
    let answer = retry
        .run(|attempt| async move {
            sleep(ms(500)).await;
            Ok::<_, Fault>(attempt.number())
        })
        .await;
    assert_eq!(answer, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_hedged_call_retries_when_all_failed_and_stops_at_a_permanent_failure() {
    let retry = Retry::new(unbounded(after(10))).idempotent();
    let start = Instant::now();
    let answer = retry
        .run(|attempt| async move {
            sleep(ms(20)).await;
            if attempt.number() < 3 { Err(RESET) } else { Ok(attempt.number()) }
        })
        .await;
    // 1 fails at 20 ms, its hedge at 30; wait 100; the third answers at 150, before its hedge does.
    assert_eq!((answer, start.elapsed()), (Ok(3), ms(150)));

    let error = retry
        .run(|attempt| async move {
            sleep(ms(15)).await;
            let class = if attempt.number() == 1 { Class::Permanent } else { Class::Reset };
            Err::<(), _>(Fault(class, ""))
        })
        .await
        .unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (Stop::Permanent, 2));
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_comes_during_a_race_holds_after_it() {
    use redial::decide::{Failure, Outcome};
    let judge = |result: &Result<u32, u64>| match result {
        Ok(_) => Outcome::Success,
        Err(0) => Failure::new(Class::Throttled).into(),
        Err(hint) => {
            Failure::new(Class::Throttled).hint(redial::schedule::Hint::AtLeast(ms(*hint))).into()
        }
    };
    let retry = Retry::new(unbounded(after(10))).idempotent().classify(judge);
    let start = Instant::now();
    let answer = retry
        .run(|attempt| async move {
            sleep(ms(20)).await;
            match attempt.number() {
                1 => Err(5_000),
                2 => Err(0),
                n => Ok(n),
            }
        })
        .await;
    assert_eq!(answer, Ok(3));
    assert!(
        start.elapsed() >= ms(5_020),
        "the first attempt's hint was 5 s: {:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_hint_holds_for_one_wait() {
    use redial::decide::{Failure, Outcome};
    use redial::schedule::{Hint, HintRule, TooLong};
    let rule = HintRule::Honour { cap: Span::SECOND, too_long: TooLong::Clip, spread: Some(0.0) };
    let log = Log::default();
    let retry = Retry::new(unbounded(|p| p.hint(rule))).observe(log.clone());
    let retry = retry.classify(|result: &Result<(), u32>| match result {
        Ok(()) => Outcome::Success,
        Err(1) => Failure::new(Class::Throttled).hint(Hint::AtLeast(ms(60_000))).into(),
        Err(_) => Failure::new(Class::Throttled).into(),
    });
    let error =
        retry.run(|attempt| async move { Err::<(), _>(attempt.number()) }).await.unwrap_err();
    assert_eq!(error.failure().unwrap().hint, None);
    assert_eq!(log.delays(), [ms(1_000), ms(200), ms(400)]);
}

/// The context of `run_with` is borrowed by one attempt at a time, and a thread makes one attempt at a time.
#[tokio::test(start_paused = true)]
async fn attempts_that_cannot_coexist_are_not_hedged() {
    let retry = Retry::new(unbounded(after(1))).idempotent();
    let mut seen = Vec::new();
    let answer = retry.run_with(&mut seen, async |seen, attempt| {
        sleep(ms(500)).await;
        seen.push(attempt.number());
        Ok::<_, Fault>(())
    });
    assert_eq!((answer.await, seen), (Ok(()), vec![1]));
    let slow = |attempt: redial::Attempt| {
        std::thread::sleep(ms(3));
        Ok::<_, Fault>(attempt.number())
    };
    assert_eq!(retry.run_blocking(slow), Ok(1));
}

#[tokio::test(start_paused = true)]
async fn attempts_of_a_race_have_their_own_timeouts() {
    let policy = unbounded(|p| after(60)(p.attempt_timeout(ms(100)).attempts(2)));
    let retry = Retry::new(policy).idempotent();
    let start = Instant::now();
    let never = |_| std::future::pending::<Result<(), Fault>>();
    let error = retry.run(never).await.unwrap_err();
    assert_eq!((error.attempts(), start.elapsed()), (2, ms(160)));
    assert_eq!(error.failure().unwrap().class, Class::Timeout);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_race_gives_back_every_place() {
    let retry = Retry::new(unbounded(|p| after(10)(p.concurrency(2)))).idempotent();
    let never = |_| std::future::pending::<Result<(), Fault>>();
    let call = retry.run(never);
    assert!(tokio::time::timeout(ms(50), call).await.is_err());
    let quick = |_| async {
        sleep(ms(1)).await;
        Ok::<_, Fault>(())
    };
    let both = tokio::join!(retry.run(quick), retry.run(quick));
    assert!(both.0.is_ok() && both.1.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_quantile_is_learned_first() {
    let log = Log::default();
    let policy = unbounded(|p| p.hedge(HedgeRule::quantile(0.9)));
    let retry = Retry::new(policy).idempotent().observe(log.clone());
    let slow = |attempt: redial::Attempt| async move {
        sleep(ms(if attempt.number() == 1 { 1_000 } else { 10 })).await;
        Ok::<_, Fault>(attempt.number())
    };
    assert_eq!(retry.run(slow).await, Ok(1), "nothing is known yet");
    for n in 0..200_u64 {
        let usual = |_| async move {
            sleep(ms(20 + n % 10)).await;
            Ok::<_, Fault>(())
        };
        retry.run(usual).await.unwrap();
    }
    let start = Instant::now();
    assert_eq!(retry.run(slow).await, Ok(2));
    let hedged_at = start.elapsed() - ms(10);
    assert!(
        (ms(28)..=ms(34)).contains(&hedged_at),
        "the ninth tenth of 20 to 29 ms: {hedged_at:?}"
    );
    assert_eq!(retry.scope("elsewhere").run(slow).await, Ok(1), "nothing is known of another host");
}
