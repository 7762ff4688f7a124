use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redial::admit::budget::{Budget, WindowBudget};
use redial::decide::{Class, Failure, Outcome};
use redial::schedule::Hint;
use redial::{Event, Policy, Rate, Retry, Retryable, Stop};
use tokio::time::{Instant, advance, sleep};

use crate::support::{Fault, Log, RESET, Script, ms, plain, unbounded};

#[tokio::test(start_paused = true)]
async fn retries_until_it_works() {
    let retry = Retry::new(plain(|p| p)).idempotent();
    let start = Instant::now();
    let seen = Script::new(&[Err(RESET), Err(RESET), Ok(42)]);
    assert_eq!(retry.run(|_| async { seen.next() }).await, Ok(42));
    assert_eq!(start.elapsed(), ms(300));
}

#[tokio::test(start_paused = true)]
async fn the_error_says_cause_reason_attempts_and_time() {
    let retry = Retry::new(plain(|p| p)).idempotent();
    let error = retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
    assert_eq!(error.reason(), Stop::Attempts);
    assert_eq!((error.attempts(), error.elapsed()), (4, ms(700)));
    assert_eq!(error.cause(), Some(&RESET));
    assert_eq!(error.failure().unwrap().class, Class::Reset);
    let text = "gave up after 4 attempts in 700 ms: all attempts were used; last outcome: reset";
    assert_eq!(error.to_string(), text);
    assert_eq!(format!("{error:#}"), format!("{text}: connection reset"));
    assert_eq!(error.clone().map_cause(|cause| cause.1).cause(), Some(&"connection reset"));
    assert_eq!(error.source().unwrap().to_string(), "connection reset");
    assert_eq!(error.into_cause(), Some(RESET));
}

#[tokio::test(start_paused = true)]
async fn nothing_unsafe_is_repeated_without_the_users_word() {
    let retry = Retry::new(plain(|p| p));
    let once = |class| {
        let retry = retry.clone();
        async move {
            let error = retry.run(|_| async { Err::<(), _>(Fault(class, "")) }).await.unwrap_err();
            (error.attempts(), error.reason())
        }
    };
    assert_eq!(once(Class::Reset).await, (1, Stop::Unsafe));
    assert_eq!(once(Class::Timeout).await, (1, Stop::Unsafe));
    assert_eq!(once(Class::Permanent).await, (1, Stop::Permanent));
    assert_eq!(once(Class::Connect).await, (4, Stop::Attempts));
}

#[tokio::test(start_paused = true)]
async fn a_slow_attempt_is_cut_off_and_the_cause_before_it_is_kept() {
    let retry = Retry::new(plain(|p| p.attempt_timeout(ms(50)).attempts(2))).idempotent();
    let start = Instant::now();
    let error = retry
        .run(|attempt| async move {
            if attempt.number() == 2 {
                sleep(Duration::from_secs(3600)).await;
            }
            Err::<(), _>(RESET)
        })
        .await
        .unwrap_err();
    assert_eq!(start.elapsed(), ms(150));
    assert_eq!(error.failure().unwrap().class, Class::Timeout);
    assert_eq!(error.cause(), Some(&RESET));
}

/// It may hold a connection, and the wait may be long.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_cut_off_is_dropped_before_the_next_one() {
    let retry = Retry::new(unbounded(|p| p.attempt_timeout(ms(50)))).idempotent();
    for retry in [retry.clone(), retry.observe(Log::default())] {
        let held = Arc::new(());
        let call = retry.run(|attempt| {
            let before = Arc::strong_count(&held);
            let held = Arc::clone(&held);
            async move {
                if attempt.number() == 1 {
                    sleep(Duration::from_secs(3600)).await;
                }
                drop(held);
                Ok::<_, Fault>(before)
            }
        });
        assert_eq!(call.await, Ok(1));
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_time_inside_the_call() {
    let retry = Retry::new(unbounded(|p| p.attempts(1_000).deadline(ms(1_000)))).idempotent();
    let start = Instant::now();
    let error = retry
        .run(|attempt| async move {
            assert!(attempt.timeout() <= Some(ms(1_000)));
            assert_eq!(attempt.timeout(), attempt.remaining());
            sleep(ms(250)).await;
            Err::<(), _>(RESET)
        })
        .await
        .unwrap_err();
    // 0-250, wait 100, 350-600, then a wait of 200 ends at 800, and 800-1000 is cut off.
    assert_eq!((error.attempts(), error.reason()), (3, Stop::Deadline));
    assert_eq!(start.elapsed(), ms(1_000));
}

#[tokio::test(start_paused = true)]
async fn a_callers_deadline_is_inherited() {
    let ends = std::time::Instant::now() + ms(250);
    let retry = Retry::new(plain(|p| p)).idempotent().deadline_at(ends);
    let error = retry.run(|_| async { Err::<(), _>(RESET) }).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (2, Stop::Deadline));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_call_gives_back_what_was_not_sent() {
    let budget = WindowBudget::ratio(0.1).floor(Rate::per_second(1));
    let retry = Retry::new(plain(|p| p.budget(Budget::Window(budget)))).idempotent();
    assert_eq!(retry.balance(), Some(10));
    let call = tokio::spawn({
        let retry = retry.clone();
        async move { retry.run(|_| async { Err::<(), _>(RESET) }).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(retry.balance(), Some(9), "charged before the wait");
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(retry.balance(), Some(10));
}

#[tokio::test(start_paused = true)]
async fn dropping_an_attempt_frees_its_place() {
    let log = Log::default();
    let retry = Retry::new(plain(|p| p.concurrency(1))).observe(log.clone());
    let slow = tokio::spawn({
        let retry = retry.clone();
        async move { retry.run(|_| std::future::pending::<Result<(), Fault>>()).await }
    });
    tokio::task::yield_now().await;
    let refused = retry.run(|_| async { Ok::<_, Fault>(()) }).await.unwrap_err();
    assert_eq!((refused.reason(), refused.attempts()), (Stop::Concurrency, 0));
    assert_eq!(refused.cause(), None);
    slow.abort();
    let _ = slow.await;
    assert!(log.take().contains(&Event::Stopped { reason: Stop::Cancelled, attempts: 1 }));
    assert!(retry.run(|_| async { Ok::<_, Fault>(()) }).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn it_runs_inside_spawn_and_borrows() {
    let retry = Retry::new(Policy::standard()).idempotent();
    let name = String::from("redial");
    let spawned = tokio::spawn(async move {
        let name = &name;
        retry
            .run(|attempt| async move {
                tokio::task::yield_now().await;
                if attempt.number() < 2 { Err(RESET) } else { Ok(name.len()) }
            })
            .await
    });
    assert_eq!(spawned.await.unwrap(), Ok(6));
}

#[tokio::test(start_paused = true)]
async fn a_context_is_lent_to_every_attempt_also_inside_spawn() {
    let retry = Retry::new(unbounded(|p| p.attempt_timeout(ms(30)))).idempotent();
    let spawned = tokio::spawn(async move {
        let mut tries: Vec<u32> = Vec::new();
        let result = retry
            .run_with(&mut tries, async |tries, attempt| {
                tries.push(attempt.number());
                if attempt.number() == 1 {
                    sleep(ms(60)).await;
                }
                if tries.len() < 3 { Err(RESET) } else { Ok(tries.len()) }
            })
            .await;
        (result, tries)
    });
    assert_eq!(spawned.await.unwrap(), (Ok(3), vec![1, 2, 3]), "a cut-off attempt returns it too");
}

#[tokio::test(start_paused = true)]
async fn it_extends_functions() {
    async fn fetch() -> Result<u32, Fault> {
        Ok(7)
    }
    let retry = Retry::new(unbounded(|p| p)).idempotent();
    assert_eq!(fetch.retry(&retry).await, Ok(7));
    let calls = AtomicU32::new(0);
    let flaky = || async {
        if calls.fetch_add(1, Ordering::Relaxed) < 2 { Err(RESET) } else { Ok("done") }
    };
    assert_eq!(flaky.retry(&retry).await, Ok("done"));
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_is_the_clock() {
    let retry = Retry::new(unbounded(|p| p.deadline(ms(60_000)).attempts(2))).idempotent();
    let slow = |_| async {
        sleep(Duration::from_secs(59)).await;
        Err::<(), _>(RESET)
    };
    let error = retry.run(slow).await.unwrap_err();
    assert_eq!(error.elapsed(), ms(60_000), "59 s, a wait, and cut off at 60 s");
    advance(Duration::from_secs(3600)).await;
    let error = retry.run(slow).await.unwrap_err();
    assert_eq!((error.elapsed(), error.reason()), (ms(60_000), Stop::Attempts));
}

#[tokio::test(start_paused = true)]
async fn hints_are_waited_for() {
    let retry = Retry::new(plain(|p| p)).classify(|result: &Result<u32, &str>| match result {
        Ok(_) => Outcome::Success,
        Err(_) => Failure::new(Class::Throttled).hint(Hint::AtLeast(ms(3_000))).into(),
    });
    let start = Instant::now();
    let answers = Script::new(&[Err("429"), Ok(1)]);
    assert_eq!(retry.run(|_| async { answers.next() }).await, Ok(1));
    assert_eq!(start.elapsed(), ms(3_000));
}

#[tokio::test(start_paused = true)]
async fn a_classifier_sees_ok_values() {
    let retry = Retry::new(plain(|p| p)).idempotent();
    let jobs = Script::new(&[Ok("queued"), Ok("running"), Err(RESET), Ok("done")]);
    let done = retry.clone().until(|state: &&str| *state == "done");
    assert_eq!(done.run(|_| async { jobs.next() }).await, Ok("done"));

    let never = retry.until(|_: &&str| false);
    let error = never.run(|_| async { Ok::<_, Fault>("queued") }).await.unwrap_err();
    assert_eq!((error.reason(), error.failure(), error.cause()), (Stop::Attempts, None, None));
}

#[tokio::test(start_paused = true)]
async fn polling_spends_no_budget() {
    let none = WindowBudget::ratio(0.1).floor(Rate::ZERO);
    let policy = plain(|p| p.attempts(50).without_deadline().budget(Budget::Window(none)));
    let retry = Retry::new(policy).until(|n: &u32| *n == 40);
    let count = AtomicU32::new(0);
    let poll = |_| async { Ok::<_, Fault>(count.fetch_add(1, Ordering::Relaxed)) };
    assert_eq!(retry.run(poll).await, Ok(40));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_calls_on_many_threads_share_one_budget() {
    let none = WindowBudget::ratio(0.25).floor(Rate::ZERO);
    let policy = Policy::draft().attempts(2).budget(Budget::Window(none));
    let retry = Retry::new(policy.build().unwrap()).idempotent();
    let attempts = Arc::new(AtomicU32::new(0));
    let calls: Vec<_> = (0..10_000)
        .map(|_| {
            let (retry, attempts) = (retry.clone(), Arc::clone(&attempts));
            tokio::spawn(async move {
                let count = |_| async {
                    attempts.fetch_add(1, Ordering::Relaxed);
                    Err::<(), _>(RESET)
                };
                retry.run(count).await.unwrap_err().attempts()
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    let attempts = attempts.load(Ordering::Relaxed);
    assert!(attempts <= 12_500, "{attempts}");
}

#[tokio::test(start_paused = true)]
async fn io_errors_say_what_they_are() {
    use std::io::{Error, ErrorKind};
    let retry = Retry::new(unbounded(|p| p));
    let attempts = |kind: ErrorKind, idempotent: bool| {
        let retry = if idempotent { retry.clone().idempotent() } else { retry.clone() };
        async move {
            retry
                .run(|_| async move { Err::<(), _>(Error::from(kind)) })
                .await
                .unwrap_err()
                .attempts()
        }
    };
    assert_eq!(attempts(ErrorKind::ConnectionRefused, false).await, 4);
    for kind in [ErrorKind::ConnectionReset, ErrorKind::TimedOut, ErrorKind::WouldBlock] {
        assert_eq!(attempts(kind, false).await, 1, "{kind:?}");
        assert_eq!(attempts(kind, true).await, 4, "{kind:?}");
    }
    for kind in [ErrorKind::NotFound, ErrorKind::PermissionDenied, ErrorKind::InvalidData] {
        assert_eq!(attempts(kind, true).await, 1, "{kind:?}");
    }
}

/// Futures have to be `Send` also when the value or the error type has a lifetime in it.
#[tokio::test(start_paused = true)]
async fn whatever_the_types_are_it_can_be_spawned() {
    type Boxed = Box<dyn std::error::Error + Send + Sync>;
    let retry = Retry::new(unbounded(|p| p));
    let boxed = retry.clone().retry_if(|_: &Boxed| true);
    let text = retry.clone().retry_if(|_: &&'static str| true);
    let policy = unbounded(|p| p.hedge(redial::schedule::HedgeRule::after(ms(10))));
    let hedged = Retry::new(policy).retry_if(|_: &Boxed| true);
    let spawned = [
        tokio::spawn({
            let retry = boxed.clone();
            async move { retry.run(|_| async { Ok::<_, Boxed>("value") }).await.is_ok() }
        }),
        tokio::spawn({
            let retry = text;
            async move { retry.run(|_| async { Err::<u32, _>("error") }).await.is_err() }
        }),
        tokio::spawn({
            let retry = boxed.clone();
            async move { (|| async { Ok::<_, Boxed>("value") }).retry(&retry).await.is_ok() }
        }),
        tokio::spawn(
            async move { hedged.run(|_| async { Ok::<_, Boxed>("value") }).await.is_ok() },
        ),
    ];
    for call in spawned {
        assert!(call.await.unwrap());
    }
}
