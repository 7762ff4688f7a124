use std::time::Duration;

/// Simulations that take longer than this are announced.
const LONG: Duration = Duration::from_secs(10);
/// The first estimate is made after this time, with at least this share done.
const FIRST: (Duration, f64) = (Duration::from_secs(2), 0.005);
/// The time between two lines in a log.
const EVERY: Duration = Duration::from_secs(10);

/// What is said while a simulation runs: once how long it will take, if that is long, and then how far it is.
#[derive(Clone, Debug)]
pub struct RunProgress {
    runs: f64,
    is_announced: bool,
    next: Duration,
}

impl RunProgress {
    /// Of this many runs.
    pub fn new(runs: f64) -> Self {
        Self { runs, is_announced: false, next: EVERY }
    }

    /// How long the whole simulation will take, as soon as it is known to be long: once.
    pub fn estimate(&mut self, done: f64, elapsed: Duration) -> Option<String> {
        let share = self.share(done);
        if self.is_announced || elapsed < FIRST.0 || share < FIRST.1 {
            return None;
        }
        let whole = elapsed.as_secs_f64() / share;
        if whole <= LONG.as_secs_f64() {
            return None;
        }
        self.is_announced = true;
        Some(format!(
            "{} will take about {}; Ctrl-C ends it early",
            match self.runs {
                1.0 => "1 run".to_owned(),
                runs => format!("{runs:.0} runs"),
            },
            rounded(whole)
        ))
    }

    /// How far it is.
    pub fn line(&self, done: f64, elapsed: Duration) -> String {
        let share = self.share(done);
        let left = match share {
            ..0.02 => String::new(),
            share => {
                format!(", {} left", rounded(elapsed.as_secs_f64() * (1.0 - share) / share))
            }
        };
        format!("{:.0} % ({done:.1} of {:.0} runs){left}", share * 100.0, self.runs)
    }

    /// How far it is, when it is time for another line in a log.
    pub fn log_line(&mut self, done: f64, elapsed: Duration) -> Option<String> {
        if elapsed < self.next {
            return None;
        }
        self.next = elapsed + EVERY;
        Some(self.line(done, elapsed))
    }

    fn share(&self, done: f64) -> f64 {
        (done / self.runs).clamp(0.0, 1.0)
    }
}

fn rounded(seconds: f64) -> String {
    if seconds < 120.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}
