//! One receiver of ten accepts connections and never answers. How long do the other nine wait for their webhooks, compared
//! with a run in which all ten answer?
//!
//! Jobs are enqueued at a fixed rate, whatever becomes of them, so that a delay shows as a delay. Each carries the time at
//! which it was enqueued, and its receiver records how long ago that was.

use std::collections::HashMap;
use std::fs;
use std::future::{IntoFuture as _, pending};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use redial_queue::delivery::{self, Deliverer, Delivery};
use redial_queue::durable::{DurableQueue, Worker};
use redial_queue::sqlite::SqliteStore;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::table::{Bar, Line, Part, Report};

const RECEIVERS: usize = 10;
/// As `redial queue work` has them.
const WORKERS: usize = 32;
const PER_SECOND: u64 = 500;
/// How long a receiver that answers takes.
const SERVICE: Duration = Duration::from_millis(5);
const ROUNDS: usize = 3;
/// How long to wait for webhooks after the last one was enqueued.
const GIVE_UP: Duration = Duration::from_secs(10);

const NOTES: &[&str] = &[
    "500 webhooks a second to 10 receivers that take 5 ms each, 32 workers, SQLite with synchronous=FULL;",
    "from the enqueueing to the arrival, over the nine receivers that always answer; the median of 3 rounds",
];

/// `webhooks` and its options.
pub(crate) fn command(args: &[&str]) -> Result<(), String> {
    let (json, seconds) = match args {
        [] => (false, 20),
        ["--json"] => (true, 20),
        ["--seconds", seconds] => {
            (false, seconds.parse().map_err(|_| format!("{seconds:?} is not a number"))?)
        }
        _ => {
            return Err(format!(
                "`webhooks` takes --json or --seconds N, not {:?}",
                args.join(" ")
            ));
        }
    };
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let with = round(seconds, true)?;
        let without = round(seconds, false)?;
        ratios.push((with / without, without, with));
    }
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (ratio, without, with) = ratios[ROUNDS / 2];
    let made_of = vec![
        Part { name: "p99 in ms, all ten answer", value: without },
        Part { name: "p99 in ms, one is silent", value: with },
    ];
    let line = Line::new("p99 with a silent receiver ÷ without", vec![], ratio, Bar::AtMost(1.5));
    let report = Report::new([vec![line.made_of(made_of)]], NOTES);
    if json {
        crate::print_json(&report);
    } else {
        print!("{report}");
    }
    Ok(())
}

fn round(seconds: u64, silent: bool) -> Result<f64, String> {
    let folder = std::env::temp_dir().join(format!("redial-bench-webhooks-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let measured = runtime.block_on(measure(&folder.join("jobs.db"), seconds, silent));
    drop(runtime);
    let _ = fs::remove_dir_all(&folder);
    measured.map_err(|error| error.to_string())
}

type Waits = Arc<Mutex<Vec<Duration>>>;

async fn measure(
    path: &Path,
    seconds: u64,
    silent: bool,
) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
    let (start, waits) = (Instant::now(), Waits::default());
    let mut urls = vec![if silent { never_answers().await? } else { answers(start, None).await? }];
    for _ in 1..RECEIVERS {
        urls.push(answers(start, Some(Arc::clone(&waits))).await?);
    }
    let queue = DurableQueue::new(Arc::new(SqliteStore::open(path)?), "hooks")?;
    let deliverer = Deliverer::new(&delivery::standard())?;
    let worker = Worker::new(queue.clone()).workers(WORKERS).drain(Duration::ZERO);
    let all = (seconds * PER_SECOND) as usize / RECEIVERS * (RECEIVERS - 1);
    let enqueue = async {
        let mut ticks = interval(Duration::from_secs(1) / PER_SECOND as u32);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for number in 0..seconds * PER_SECOND {
            ticks.tick().await;
            let Some(url) = urls.get(number as usize % RECEIVERS) else { continue };
            let Ok(delivery) = Delivery::post(url) else { continue };
            let job = delivery.body(start.elapsed().as_nanos().to_string()).into_job();
            let queue = queue.clone();
            tokio::spawn(async move { queue.enqueue(job).await.map(drop) });
        }
        let last = Instant::now();
        while count(&waits) < all && last.elapsed() < GIVE_UP {
            sleep(Duration::from_millis(10)).await;
        }
    };
    worker.run(deliverer, enqueue).await?;
    let mut waits = waits.lock().unwrap_or_else(PoisonError::into_inner);
    // A webhook that has not arrived by now has waited at least this long.
    let arrived = waits.len();
    waits.resize(all.max(arrived), GIVE_UP);
    waits.sort_unstable();
    let p99 = waits.get(waits.len() * 99 / 100).ok_or("nothing was sent")?;
    Ok(p99.as_secs_f64() * 1e3)
}

fn count(waits: &Waits) -> usize {
    waits.lock().unwrap_or_else(PoisonError::into_inner).len()
}

/// A receiver that answers, and records how long each webhook has taken if `waits` is set.
async fn answers(start: Instant, waits: Option<Waits>) -> io::Result<String> {
    let arrived = move |State(waits): State<Option<Waits>>, sent: String| async move {
        let sent = Duration::from_nanos(sent.parse().unwrap_or_default());
        if let Some(waits) = waits {
            let wait = start.elapsed().saturating_sub(sent);
            waits.lock().unwrap_or_else(PoisonError::into_inner).push(wait);
        }
        sleep(SERVICE).await;
    };
    let app = Router::new().route("/", post(arrived)).with_state(waits);
    let (listener, url) = listen().await?;
    tokio::spawn(axum::serve(listener, app).into_future());
    Ok(url)
}

/// A receiver that accepts every connection, and that is all.
async fn never_answers() -> io::Result<String> {
    let (listener, url) = listen().await?;
    tokio::spawn(async move {
        let mut held = HashMap::new();
        while let Ok((stream, from)) = listener.accept().await {
            held.insert(from, stream);
        }
        pending::<()>().await;
    });
    Ok(url)
}

async fn listen() -> io::Result<(TcpListener, String)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    Ok((listener, url))
}
