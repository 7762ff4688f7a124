//! What parked calls cost while nothing happens: they are woken by evidence, not by polls.
//!
//! A process makes 8,000 calls a second, then everything fails and 5,000 calls park. The processor time of the thread that
//! holds them is read at the beginning and at the end of five seconds. Without traffic, only probes run in this time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use std::{fs, io};

use redial::{ParkLimit, Policy, Retry};
use tokio::task::LocalSet;
use tokio::time::{interval, sleep};

use crate::table::{Bar, Line, Part, Report};

const CALLS: u32 = 5_000;
const CALLS_PER_MS: u32 = 8;
const WARM_UP: Duration = Duration::from_secs(3);
const HELD: Duration = Duration::from_secs(5);

pub(crate) fn measure() -> Result<Report, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.and_then(|runtime| runtime.block_on(hold())).map_err(|error| error.to_string())
}

async fn hold() -> io::Result<Report> {
    let limit = ParkLimit::new(CALLS);
    let draft = Policy::draft().deadline(Duration::from_secs(30));
    let policy = draft.build().map_err(io::Error::other)?;
    let retry = Retry::new(policy).idempotent().park_limit(&limit);

    let begun = Instant::now();
    let mut ticks = interval(Duration::from_millis(1));
    while begun.elapsed() < WARM_UP {
        ticks.tick().await;
        for _ in 0..CALLS_PER_MS {
            retry.run(async |_| Ok::<_, io::Error>(())).await.map_err(io::Error::other)?;
        }
    }

    let attempts = Rc::new(Cell::new(0_u32));
    let local = LocalSet::new();
    for _ in 0..CALLS {
        let (retry, attempts) = (retry.clone(), attempts.clone());
        local.spawn_local(async move {
            let fails = async |_| {
                attempts.set(attempts.get() + 1);
                Err::<(), _>(io::Error::from(io::ErrorKind::ConnectionRefused))
            };
            retry.run(fails).await
        });
    }
    let held = async {
        // The first retries of each call that the budget still pays for are over by then.
        sleep(Duration::from_secs(1)).await;
        let (before, sent, used) = (limit.parked(), attempts.get(), processor_time()?);
        sleep(HELD).await;
        let used = processor_time()? - used;
        let parts = vec![
            Part { name: "parked before", value: f64::from(before) },
            Part { name: "after", value: f64::from(limit.parked()) },
            Part { name: "probes", value: f64::from(attempts.get() - sent) },
        ];
        let percent = 100.0 * used.as_secs_f64() / HELD.as_secs_f64();
        let what = "5,000 parked calls, % of a core";
        Ok(Report::new([vec![Line::new(what, parts, percent, Bar::AtMost(1.0))]], &[]))
    };
    local.run_until(held).await
}

/// How long this thread has run, by the kernel's scheduler.
fn processor_time() -> io::Result<Duration> {
    let file = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = file.split(' ').next().and_then(|nanos| nanos.parse().ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| io::Error::other("no schedstat"))
}
