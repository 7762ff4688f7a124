//! A long run must not leave a person alone: it says how far it is, and Ctrl-C gets what there is so far.

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

const LOOK: Duration = Duration::from_millis(50);
/// Nobody wants to read about what is over at once.
const SILENT: Duration = Duration::from_secs(1);

/// What was done, whether it was stopped, and how long it took.
pub(crate) struct Attended<T> {
    pub(crate) done: T,
    pub(crate) wall_ms: f64,
    is_stopped: bool,
}

impl<T> Attended<T> {
    /// To be asked when everything has been printed.
    pub(crate) fn end(&self) -> Result<(), Failed> {
        if self.is_stopped { Err(Failed::Stopped) } else { Ok(()) }
    }
}

/// Does work that consists of so many runs. The first Ctrl-C stops it, the second one ends the process.
pub(crate) fn attend<T>(runs: f64, work: impl FnOnce(&Watch) -> T) -> Result<Attended<T>, Failed> {
    let interrupted = Arc::new(AtomicBool::new(false));
    // A shell starts what runs in the background with Ctrl-C ignored.
    if !is_ignored(Signal::SIGINT) {
        // In this order: the first signal must find it unset.
        flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&interrupted))?;
        flag::register(SIGINT, Arc::clone(&interrupted))?;
    }
    let watch = Watch::default();
    #[allow(clippy::disallowed_methods, reason = "how long we took is the one thing not simulated")]
    let started = Instant::now();
    let (working, over) = mpsc::channel::<()>();
    let done = thread::scope(|scope| {
        let watch = &watch;
        scope.spawn(move || {
            let mut has_said = false;
            while over.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if interrupted.load(Ordering::Relaxed) {
                    watch.stop();
                } else if started.elapsed() > SILENT && io::stderr().is_terminal() {
                    has_said = true;
                    say(watch.runs_done(), runs, started.elapsed());
                }
            }
            if has_said {
                let _ = write!(io::stderr(), "\r\x1b[2K");
            }
        });
        let done = work(watch);
        drop(working);
        done
    });
    let wall_ms = started.elapsed().as_secs_f64() * 1e3;
    Ok(Attended { done, wall_ms, is_stopped: watch.is_stopped() })
}

fn say(done: f64, runs: f64, elapsed: Duration) {
    let share = (done / runs).clamp(0.0, 1.0);
    let left = match share {
        ..0.02 => String::new(),
        share => format!(", {:.0} s left", elapsed.as_secs_f64() * (1.0 - share) / share),
    };
    // A terminal that has gone away is no reason to stop.
    let _ = write!(
        io::stderr(),
        "\r\x1b[2K{:.0} % ({done:.1} of {runs:.0} runs){left}; Ctrl-C for what there is",
        share * 100.0
    );
}
