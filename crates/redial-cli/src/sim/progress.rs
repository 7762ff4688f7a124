//! Progress of a long simulation on a terminal, and Ctrl-C, which ends it with the results so far.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use redial_sim::simulate::Watch;
use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::failed::Failed;
use crate::run::is_ignored;

const POLL: Duration = Duration::from_millis(50);
/// Shorter simulations show no progress.
const SILENT: Duration = Duration::from_secs(1);

/// The result, how long it took, and whether it was stopped.
pub(crate) struct Completed<T> {
    pub(crate) done: T,
    pub(crate) wall_ms: f64,
    is_stopped: bool,
}

impl<T> Completed<T> {
    /// The error to return after everything has been printed.
    pub(crate) fn end(&self) -> Result<(), Failed> {
        if self.is_stopped { Err(Failed::Stopped) } else { Ok(()) }
    }
}

/// Does work of so many runs. The first Ctrl-C stops it, the second one ends the process.
pub(crate) fn with_progress<T>(
    runs: f64,
    work: impl FnOnce(&Watch) -> T,
) -> Result<Completed<T>, Failed> {
    let interrupted = Arc::new(AtomicBool::new(false));
    // A shell starts background jobs with SIGINT ignored.
    if !is_ignored(Signal::SIGINT) {
        // In this order, so that the first signal finds the flag unset.
        flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&interrupted))?;
        flag::register(SIGINT, Arc::clone(&interrupted))?;
    }
    let watch = Watch::default();
    #[allow(clippy::disallowed_methods, reason = "the elapsed time of the simulation itself")]
    let started = Instant::now();
    let (working, over) = mpsc::channel::<()>();
    let done = thread::scope(|scope| {
        let watch = &watch;
        scope.spawn(move || {
            let mut is_shown = false;
            while over.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                if interrupted.load(Ordering::Relaxed) {
                    watch.stop();
                } else if started.elapsed() > SILENT && io::stderr().is_terminal() {
                    is_shown = true;
                    show(watch.runs_done(), runs, started.elapsed());
                }
            }
            if is_shown {
                let _ = write!(io::stderr(), "\r\x1b[2K");
            }
        });
        let done = work(watch);
        drop(working);
        done
    });
    let wall_ms = started.elapsed().as_secs_f64() * 1e3;
    Ok(Completed { done, wall_ms, is_stopped: watch.is_stopped() })
}

fn show(done: f64, runs: f64, elapsed: Duration) {
    let share = (done / runs).clamp(0.0, 1.0);
    let left = match share {
        ..0.02 => String::new(),
        share => format!(", {:.0} s left", elapsed.as_secs_f64() * (1.0 - share) / share),
    };
    // A closed terminal is no reason to stop.
    let _ = write!(
        io::stderr(),
        "\r\x1b[2K{:.0} % ({done:.1} of {runs:.0} runs){left}; Ctrl-C stops and prints the results so far",
        share * 100.0
    );
}
