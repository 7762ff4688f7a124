use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use redial::admit::budget::{Budget, WindowBudget};
use redial::{CancelToken, Rate, Retry, RetryableBlocking, Stop};

use crate::support::{Fault, RESET, Script, ms, plain, unbounded};
use redial::schedule::{Backoff, Jitter};

fn quick() -> Retry {
    let backoff = Backoff::exponential(ms(5), ms(20)).jitter(Jitter::None);
    Retry::new(unbounded(|p| p.backoff(backoff))).idempotent()
}

#[test]
fn retries_until_it_works_and_really_waits() {
    let answers = Script::new(&[Err(RESET), Err(RESET), Ok(9)]);
    let start = Instant::now();
    assert_eq!(quick().run_blocking(|_| answers.next()), Ok(9));
    assert!(start.elapsed() >= ms(15));
}

#[test]
fn the_error_is_the_same_as_that_of_the_async_runner() {
    let error = quick().run_blocking(|_| Err::<(), _>(RESET)).unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (Stop::Attempts, 4));
    assert!(error.elapsed() >= ms(35));
    assert_eq!(error.cause(), Some(&RESET));
}

#[test]
fn it_extends_functions() {
    let connect = || Ok::<_, Fault>("connected");
    assert_eq!(connect.retry_blocking(&quick()), Ok("connected"));
}

#[test]
fn a_token_wakes_the_wait_and_leaves_the_ledger_right() {
    let hour = Backoff::constant(Duration::from_secs(3600)).jitter(Jitter::None);
    let budget = WindowBudget::ratio(0.1).floor(Rate::per_second(1)).ttl(ms(60_000));
    let policy = plain(|p| p.backoff(hour).without_deadline().budget(Budget::Window(budget)));
    let retry = Retry::new(policy).idempotent();
    let (token, (failed, seen)) = (CancelToken::new(), mpsc::channel());
    let before = retry.balance();
    let waiting = thread::spawn({
        let (retry, token) = (retry.clone(), token.clone());
        move || {
            retry.run_blocking_with(&token, |_| {
                failed.send(()).unwrap();
                Err::<(), _>(RESET)
            })
        }
    });
    seen.recv().unwrap();
    token.cancel();
    let error = waiting.join().unwrap().unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (Stop::Cancelled, 1));
    assert_eq!(error.cause(), Some(&RESET));
    assert_eq!(retry.balance(), before);
    let late = retry.run_blocking_with(&token, |_| Ok::<_, Fault>(())).unwrap_err();
    assert_eq!((late.reason(), late.attempts()), (Stop::Cancelled, 0));
}

#[test]
fn a_panic_in_the_operation_gives_back_its_place() {
    let retry = Retry::new(plain(|p| p.concurrency(1)));
    let clone = retry.clone();
    let panicked = thread::spawn(move || {
        clone.run_blocking(|_| -> Result<(), Fault> { panic!("a bug of the caller") })
    });
    assert!(panicked.join().is_err());
    assert!(retry.run_blocking(|_| Ok::<_, Fault>(())).is_ok());
}
