//! A counter that every call updates must not make two threads slower than one. Instruction counts do not show
//! that; wall-clock time does.

use std::fs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Calls per second of two threads together, divided by those of one thread.
pub(crate) struct SpeedUp {
    pub(crate) ratio: f64,
    /// Whether another process used one of the cores in every run.
    pub(crate) disturbed: bool,
}

pub(crate) fn speed_up(call: impl Fn(usize) + Sync) -> SpeedUp {
    let (one, two) = (best(1, &call), best(2, &call));
    SpeedUp { ratio: two.per_second / one.per_second, disturbed: one.disturbed || two.disturbed }
}

/// The best of all runs, after ten undisturbed ones; or of thirty on a machine that is never idle.
fn best(threads: usize, call: &(impl Fn(usize) + Sync)) -> Run {
    const ENOUGH: usize = 10;
    const TRIES: usize = 30;
    let (mut quiet, mut per_second) = (0, 0.0_f64);
    for _ in 0..TRIES {
        let run = run(threads, call);
        per_second = per_second.max(run.per_second);
        quiet += usize::from(!run.disturbed);
        if quiet == ENOUGH {
            break;
        }
    }
    Run { per_second, disturbed: quiet == 0 }
}

struct Run {
    per_second: f64,
    /// Whether a thread waited for a core for more than a twentieth of the time.
    disturbed: bool,
}

fn run(threads: usize, call: &(impl Fn(usize) + Sync)) -> Run {
    const LENGTH: Duration = Duration::from_millis(50);
    const BATCH: u64 = 1000;
    let (stop, start) = (AtomicBool::new(false), Barrier::new(threads));
    let work = |stripe: usize| {
        start.wait();
        let (waited_before, began, mut calls) = (waited_for_a_core(), Instant::now(), 0);
        while !stop.load(Ordering::Relaxed) {
            (0..BATCH).for_each(|_| call(stripe));
            calls += BATCH;
        }
        let (took, waited) = (began.elapsed(), waited_for_a_core() - waited_before);
        Run { per_second: calls as f64 / took.as_secs_f64(), disturbed: waited > took / 20 }
    };
    let work = &work;
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|stripe| scope.spawn(move || work(stripe))).collect();
        thread::sleep(LENGTH);
        stop.store(true, Ordering::Relaxed);
        let runs = workers.into_iter().filter_map(|worker| worker.join().ok());
        runs.fold(Run { per_second: 0.0, disturbed: false }, |all, run| Run {
            per_second: all.per_second + run.per_second,
            disturbed: all.disturbed || run.disturbed,
        })
    })
}

/// How long this thread was runnable without a core; zero where the kernel does not report it.
fn waited_for_a_core() -> Duration {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = schedstat.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok());
    waited.map_or(Duration::ZERO, Duration::from_nanos)
}
