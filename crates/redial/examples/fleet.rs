//! One of many instances that call a service which is down. Each may retry ten times a second if it is alone; those that
//! name the same ledger may together. Start a few of them, with Redis and with `local` floors.
//!
//! `cargo run -p redial --example fleet --features fleet`
//!
//! Takes the ledger (or `local`), the service, calls a second and seconds; all of them have defaults.
#![allow(clippy::print_stdout, reason = "an example shows what happened")]
#![allow(clippy::disallowed_methods, reason = "the lines of many processes are sorted by time")]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use redial::admit::budget::{Budget, WindowBudget};
use redial::fleet::Fleet;
use redial::schedule::Backoff;
use redial::{Policy, Rate, Retry};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval};

static RETRIES: AtomicU64 = AtomicU64::new(0);

async fn call(retry: Retry, service: String) {
    let called = retry.run(|attempt| {
        RETRIES.fetch_add(u64::from(attempt.number() > 1), Relaxed);
        TcpStream::connect(service.clone())
    });
    drop(called.await);
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut arg = |default: &str| args.next().unwrap_or_else(|| default.to_owned());
    let (ledger, service) = (arg("redis://127.0.0.1:6379"), arg("127.0.0.1:1"));
    let (rate, seconds): (u32, u32) = (arg("2").parse()?, arg("3").parse()?);

    let backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_secs(1));
    let budget = Budget::Window(WindowBudget::ratio(0.1).floor(Rate::per_second(10)));
    let policy = Policy::standard().edit().attempts(6).backoff(backoff).budget(budget).build()?;
    let mut retry = Retry::new(policy);
    let fleet = (ledger != "local").then(|| Fleet::open(&ledger, "example")).transpose()?;
    if let Some(fleet) = &fleet {
        retry = retry.fleet(fleet)?;
    }

    let mut ticks = interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for made in 1..=rate * seconds {
        ticks.tick().await;
        tokio::spawn(call(retry.clone(), service.clone()));
        if made % rate == 0 {
            let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
            println!("{time} calls {made} retries {}", RETRIES.load(Relaxed));
        }
    }
    // An instance that is killed without leaving keeps its share of the floor for a while.
    let _heard = fleet.as_ref().map(Fleet::leave);
    Ok(())
}
