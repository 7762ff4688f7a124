use std::{fs, thread};

use redial_core::Span;

/// The unit of processor time in `/proc`, on every Linux machine.
const CLOCK_TICK: Span = Span::from_millis(10);

/// The processor time of the process when a run began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuTime(Option<Span>);

impl CpuTime {
    pub(crate) fn start() -> Self {
        Self(used())
    }

    /// The share of all processors that the process has used since; `None` without `/proc`.
    pub(crate) fn share(self, elapsed: Span) -> Option<f64> {
        let used = used()? - self.0?;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let elapsed = elapsed.max(Span::from_nanos(1)).as_nanos_f64();
        Some(used.as_nanos_f64() / (elapsed * processors as f64))
    }
}

fn used() -> Option<Span> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the process comes before, in parentheses, and may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) * CLOCK_TICK)
}
