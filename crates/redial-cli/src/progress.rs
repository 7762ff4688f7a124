//! Progress of a long simulation on standard error, and Ctrl-C, which ends it with the results so far.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use redial_sim::report::RunProgress;
use redial_sim::simulate::Watch;
use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::failed::Failed;
use crate::process::is_ignored;
use crate::text::sanitise;

const POLL: Duration = Duration::from_millis(50);
/// Shorter simulations show no progress on a terminal.
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

/// Does work that consists of `runs` runs. The first Ctrl-C stops it, the second one ends the process.
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
            let mut progress = RunProgress::new(runs);
            let is_terminal = io::stderr().is_terminal();
            while over.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                if interrupted.load(Ordering::Relaxed) {
                    watch.stop();
                } else if started.elapsed() > SILENT {
                    show(&mut progress, watch, started.elapsed(), is_terminal);
                }
            }
            if is_terminal && started.elapsed() > SILENT {
                let _ = write!(io::stderr(), "{CLEAR}");
            }
        });
        let done = work(watch);
        drop(working);
        done
    });
    let wall_ms = started.elapsed().as_secs_f64() * 1e3;
    Ok(Completed { done, wall_ms, is_stopped: watch.is_stopped() })
}

/// Clears the current line of a terminal.
const CLEAR: &str = "\r\x1b[2K";

/// A terminal has one line that changes, a log a line now and then. A closed terminal is no reason to stop.
fn show(progress: &mut RunProgress, watch: &Watch, elapsed: Duration, is_terminal: bool) {
    let clear = if is_terminal { CLEAR } else { "" };
    let (done, attempts) = (watch.runs_done(), watch.attempts());
    let estimate = progress.estimate(done, elapsed);
    for said in estimate.into_iter().chain(progress.late(done, elapsed, &attempts)) {
        let _ = writeln!(io::stderr(), "{clear}{}", sanitise(&said));
    }
    if is_terminal {
        let line = sanitise(&progress.line(done, elapsed, &attempts));
        let _ = write!(io::stderr(), "{clear}{line}");
    } else if let Some(line) = progress.log_line(done, elapsed, &attempts) {
        let _ = writeln!(io::stderr(), "{}", sanitise(&line));
    }
}
