use std::{fs, thread};

use redial_core::Nanos;

/// The unit of processor time in `/proc`, on every Linux machine.
const TICK: Nanos = 10_000_000;

/// The processor time of the process when a run began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuTime(Option<Nanos>);

impl CpuTime {
    pub(crate) fn start() -> Self {
        Self(used())
    }

    /// The share of all processors that the process has used since; `None` without `/proc`.
    pub(crate) fn share(self, elapsed: Nanos) -> Option<f64> {
        let used = used()?.saturating_sub(self.0?);
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Some(used as f64 / (elapsed.max(1) as f64 * processors as f64))
    }
}

fn used() -> Option<Nanos> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the process comes before, in parentheses, and may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<Nanos>().ok();
    Some((ticks()? + ticks()?) * TICK)
}
