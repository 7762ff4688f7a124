use std::time::Duration;

use crate::number::count;
use crate::simulate::PolicyAttempts;

/// Simulations that take longer than this are announced.
const LONG: Duration = Duration::from_secs(10);
/// The first estimate is made after this time, with at least this share done.
const FIRST: (Duration, f64) = (Duration::from_secs(2), 0.005);
/// The time between two lines in a log.
const EVERY: Duration = Duration::from_secs(10);
/// A simulation is late if it takes more than this many times the announced duration.
const LATE: f64 = 1.5;

/// What is said while a simulation runs: once how long it will take, if that is long, then how far it is, and once why it
/// takes longer.
#[derive(Clone, Debug)]
pub struct RunProgress {
    runs: f64,
    /// How many seconds were announced.
    announced: Option<f64>,
    is_explained: bool,
    next: Duration,
}

impl RunProgress {
    /// Of this many runs.
    pub fn new(runs: f64) -> Self {
        Self { runs, announced: None, is_explained: false, next: EVERY }
    }

    /// How long the whole simulation will take, as soon as it is known to be long: once.
    pub fn estimate(&mut self, done: f64, elapsed: Duration) -> Option<String> {
        let share = self.share(done);
        if self.announced.is_some() || elapsed < FIRST.0 || share < FIRST.1 {
            return None;
        }
        let whole = elapsed.as_secs_f64() / share;
        if whole <= LONG.as_secs_f64() {
            return None;
        }
        self.announced = Some(whole);
        Some(format!(
            "{} will take about {}; Ctrl-C ends it early",
            match self.runs {
                1.0 => "1 run".to_owned(),
                runs => format!("{runs:.0} runs"),
            },
            rounded(whole)
        ))
    }

    /// Which policy makes it take longer than announced: once, as soon as it is clear that it will. What has not been
    /// announced is short.
    pub fn late(
        &mut self,
        done: f64,
        elapsed: Duration,
        attempts: &PolicyAttempts,
    ) -> Option<String> {
        let expected = self.announced.unwrap_or(LONG.as_secs_f64());
        let whole = elapsed.as_secs_f64() / self.share(done);
        if self.is_explained || elapsed <= LONG || whole <= expected * LATE {
            return None;
        }
        self.is_explained = true;
        let (policy, most) = attempts.most()?;
        let (most, total) = (most as f64, attempts.total() as f64);
        let is_known = self.share(done) >= FIRST.1;
        let about = if is_known { format!(", about {}", rounded(whole)) } else { String::new() };
        Some(format!(
            "this takes longer than announced{about}: of {} attempts so far, {policy} made {}",
            count(total),
            if most == total { "all".to_owned() } else { count(most) }
        ))
    }

    /// How far it is.
    pub fn line(&self, done: f64, elapsed: Duration, attempts: &PolicyAttempts) -> String {
        let share = self.share(done);
        let left = match share {
            ..0.02 => String::new(),
            share => {
                format!(", {} left", rounded(elapsed.as_secs_f64() * (1.0 - share) / share))
            }
        };
        let policy = attempts.current().map_or_else(String::new, |(policy, made)| {
            format!("; {policy}: {} attempts so far", count(made as f64))
        });
        format!("{:.0} % ({done:.1} of {:.0} runs){left}{policy}", share * 100.0, self.runs)
    }

    /// How far it is, when it is time for another line in a log.
    pub fn log_line(
        &mut self,
        done: f64,
        elapsed: Duration,
        attempts: &PolicyAttempts,
    ) -> Option<String> {
        if elapsed < self.next {
            return None;
        }
        self.next = elapsed + EVERY;
        Some(self.line(done, elapsed, attempts))
    }

    fn share(&self, done: f64) -> f64 {
        (done / self.runs).clamp(0.0, 1.0)
    }
}

fn rounded(seconds: f64) -> String {
    if seconds < 120.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}
