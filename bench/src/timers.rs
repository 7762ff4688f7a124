//! Jitter spreads callers only as far as the timer below it can distinguish waits. A timer that rounds to 15 ms
//! turns a uniform wait of 0 to 20 ms into two groups.
//!
//! Calls fail once and wait: full jitter below 100 ms, the first wait of the standard policy, and below 20 ms. An
//! observer records the drawn wait; the operation measures the actual one.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redial::admit::budget::Budget;
use redial::schedule::Backoff;
use redial::{Event, Policy, Retry};
use serde::Serialize;

const WAITS: usize = 300;
const THREADS: usize = 8;
const CEILINGS_MS: [u64; 2] = [100, 20];

pub(crate) fn measure() -> Result<Report, String> {
    let mut runners = Vec::new();
    for ceiling_ms in CEILINGS_MS {
        let backoff = Backoff::constant(Duration::from_millis(ceiling_ms));
        let draft = Policy::draft().attempts(2).backoff(backoff).budget(Budget::None);
        let retry = Retry::new(draft.build().map_err(|error| error.to_string())?).idempotent();
        runners.push(Runner::of("async, 300 tasks at once", ceiling_ms, on_tokio(&retry)?));
        runners.push(Runner::of("blocking, 8 threads", ceiling_ms, on_threads(&retry)?));
    }
    Ok(Report { runners })
}

/// The waits of both runners.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    runners: Vec<Runner>,
}

/// Times are in milliseconds.
#[derive(Debug, Serialize)]
struct Runner {
    what: &'static str,
    ceiling_ms: u64,
    waits: usize,
    late_min: f64,
    late_median: f64,
    late_p99: f64,
    /// Of the drawn waits from the uniform distribution.
    distance_drawn: f64,
    /// Of the actual waits from it.
    distance_waited: f64,
    /// Wake-ups without another one in the 0.1 ms before.
    wakes_apart: usize,
}

impl Runner {
    fn of(what: &'static str, ceiling_ms: u64, waits: Vec<Wait>) -> Self {
        let late = sorted(waits.iter().map(|wait| ms(wait.waited) - ms(wait.drawn)));
        let at = |share: f64| late[((late.len() - 1) as f64 * share).round() as usize];
        let mut woken: Vec<Instant> = waits.iter().map(|wait| wait.woken).collect();
        woken.sort_unstable();
        let apart = |pair: &&[Instant]| pair[1] - pair[0] > Duration::from_micros(100);
        Self {
            what,
            ceiling_ms,
            waits: waits.len(),
            late_min: at(0.0),
            late_median: at(0.5),
            late_p99: at(0.99),
            distance_drawn: distance(ceiling_ms, waits.iter().map(|wait| wait.drawn)),
            distance_waited: distance(ceiling_ms, waits.iter().map(|wait| wait.waited)),
            wakes_apart: 1 + woken.windows(2).filter(apart).count(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One sample of this size in twenty exceeds this distance by chance.
        let chance = 1.36 / (WAITS as f64).sqrt();
        writeln!(f, "waits drawn uniformly below a ceiling; distances are Kolmogorov-Smirnov's,")?;
        writeln!(f, "and a sample of {WAITS} stays below {chance:.3} 19 times of 20")?;
        for runner in &self.runners {
            let Runner { what, ceiling_ms, waits, late_min, late_median, late_p99, .. } = runner;
            let Runner { distance_drawn, distance_waited, wakes_apart, .. } = runner;
            writeln!(f, "{what}: {waits} waits below {ceiling_ms} ms")?;
            writeln!(
                f,
                "  late: min {late_min:.3} ms, median {late_median:.3} ms, p99 {late_p99:.3} ms"
            )?;
            writeln!(
                f,
                "  distance from uniform: drawn {distance_drawn:.3}, waited {distance_waited:.3}"
            )?;
            writeln!(f, "  wake-ups without another one in the 0.1 ms before: {wakes_apart}")?;
        }
        Ok(())
    }
}

/// One wait: drawn and actual.
struct Wait {
    drawn: Duration,
    waited: Duration,
    woken: Instant,
}

fn on_tokio(retry: &Retry) -> Result<Vec<Wait>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let calls: Vec<_> = (0..WAITS)
            .map(|_| {
                let (retry, drawn) = observed(retry);
                tokio::spawn(async move {
                    let mut times = Vec::with_capacity(2);
                    let answer = retry.run_with(&mut times, async |times, _| fail_once(times));
                    let answer = answer.await.map_err(|error| error.to_string());
                    answer.map(|()| wait(&times, &drawn))
                })
            })
            .collect();
        let mut waits = Vec::with_capacity(WAITS);
        for call in calls {
            waits.push(call.await.map_err(|error| error.to_string())??);
        }
        Ok(waits)
    })
}

fn on_threads(retry: &Retry) -> Result<Vec<Wait>, String> {
    let work = || {
        let call = |_| {
            let (retry, drawn) = observed(retry);
            let mut times = Vec::with_capacity(2);
            let answer = retry.run_blocking(|_| fail_once(&mut times));
            answer.map(|()| wait(&times, &drawn)).map_err(|error| error.to_string())
        };
        (0..WAITS.div_ceil(THREADS)).map(call).collect::<Result<Vec<_>, _>>()
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let mut waits = Vec::new();
        for worker in workers {
            waits.extend(worker.join().map_err(|_| "a thread died".to_owned())??);
        }
        Ok(waits)
    })
}

/// A clone whose observer records the drawn wait of its call.
fn observed(retry: &Retry) -> (Retry, Arc<AtomicU64>) {
    let drawn = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&drawn);
    let observer = move |event: &Event| {
        if let Event::RetryScheduled { delay, .. } = event {
            seen.store(delay.as_nanos() as u64, Ordering::Relaxed);
        }
    };
    (retry.clone().observe(observer), drawn)
}

fn fail_once(times: &mut Vec<Instant>) -> io::Result<()> {
    times.push(Instant::now());
    if times.len() == 1 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
}

fn wait(times: &[Instant], drawn: &AtomicU64) -> Wait {
    let drawn = Duration::from_nanos(drawn.load(Ordering::Relaxed));
    Wait { drawn, waited: times[1] - times[0], woken: times[1] }
}

/// The Kolmogorov-Smirnov distance of these waits, as shares of the ceiling, from the uniform distribution.
fn distance(ceiling_ms: u64, waits: impl Iterator<Item = Duration>) -> f64 {
    let shares = sorted(waits.map(|wait| ms(wait) / ceiling_ms as f64));
    let n = shares.len() as f64;
    let gap = |(index, share): (usize, &f64)| {
        let (below, above) = (index as f64 / n, (index + 1) as f64 / n);
        let uniform = share.clamp(0.0, 1.0);
        (uniform - below).abs().max((above - uniform).abs())
    };
    shares.iter().enumerate().map(gap).fold(0.0, f64::max)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
