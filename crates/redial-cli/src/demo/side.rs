//! One of the two backends of the demo with its callers: the traffic so far, and its prediction.

use std::io;

use redial_cli::Curve;
use redial_core::{Nanos, SECOND};
use redial_live::{Live, Log, Naive, Redial, Running, Setting, start};
use redial_sim::{Scenario, Subject};

use super::DRAIN;
use super::prediction::Prediction;

/// A backend with its callers.
pub(super) struct Side {
    pub(super) name: String,
    prediction: Prediction,
    running: Running,
    samples: Samples,
    interrupted: Option<Nanos>,
}

/// The measured and the predicted result.
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) prediction: Prediction,
    pub(super) live: Live,
    /// When Ctrl-C ended it.
    pub(super) interrupted: Option<Nanos>,
}

/// The samples to draw. They are updated from the new part of the log, because server and callers wait while it is read.
struct Samples {
    /// The duration of a sample.
    sample: Nanos,
    attempts: Vec<u32>,
    answered: Vec<u32>,
    attempts_read: usize,
    ended_read: usize,
}

/// Measured and predicted.
pub(super) struct Pair<T> {
    pub(super) measured: T,
    pub(super) predicted: T,
}

impl Side {
    /// The naive loop and Redial, started together.
    pub(super) fn both(
        scenario: &Scenario,
        subjects: [(Subject, Prediction); 2],
        seed: u64,
        samples: usize,
    ) -> io::Result<[Self; 2]> {
        let setting = Setting::of(scenario).map_err(io::Error::other)?.seed(seed).drain(DRAIN);
        let [(naive, naive_prediction), (redial, redial_prediction)] = subjects;
        let impatient = setting.clone().timeout(naive.policy.attempt_timeout_nanos());
        let naive_running = start(impatient, |_| Naive::TYPICAL).map_err(io::Error::other)?;
        let redial_running = start(setting, |_| Redial::new(redial.policy.clone()));
        let redial_running = redial_running.map_err(io::Error::other)?;
        Ok([
            Self::new(naive.name, naive_prediction, naive_running, samples),
            Self::new(redial.name, redial_prediction, redial_running, samples),
        ])
    }

    fn new(name: String, prediction: Prediction, running: Running, samples: usize) -> Self {
        let sample = running.setting().scenario().duration.div_ceil(samples as Nanos).max(1);
        let (attempts, answered) = (vec![0; samples], vec![0; samples]);
        let samples = Samples { sample, attempts, answered, attempts_read: 0, ended_read: 0 };
        Self { name, prediction, running, samples, interrupted: None }
    }

    /// Time since the start, up to the end of the scenario.
    pub(super) fn now(&self) -> Nanos {
        self.running.now().min(self.running.setting().scenario().duration)
    }

    pub(super) fn is_over(&self) -> bool {
        self.running.is_over()
    }

    pub(super) fn stop(&mut self) {
        self.interrupted = Some(self.now());
        self.running.stop();
    }

    /// Adds what has happened since the last update.
    pub(super) fn update(&mut self) {
        let Self { running, samples, .. } = self;
        running.record().read(|log| samples.add(log));
    }

    pub(super) fn finish(self) -> Outcome {
        let Self { name, prediction, interrupted, running, .. } = self;
        Outcome { name, prediction, interrupted, live: running.finish() }
    }

    /// Attempts per second at the backend, measured for each complete sample.
    pub(super) fn attempts(&self) -> Pair<Vec<f64>> {
        self.samples.pair(&self.samples.attempts, &self.prediction.attempts, self.now())
    }

    /// Successful calls per second.
    pub(super) fn answered(&self) -> Pair<Vec<f64>> {
        self.samples.pair(&self.samples.answered, &self.prediction.answered, self.now())
    }

    /// Attempts and successful calls of the second that ends now.
    pub(super) fn last_second(&self) -> [Pair<usize>; 2] {
        let now = self.now();
        let since = now.saturating_sub(SECOND);
        let (attempts, answered) = self.running.record().read(|log| {
            let attempts = log.attempts.iter().rev().skip_while(|arrived| arrived.at > now);
            let attempts = attempts.take_while(|arrived| arrived.at >= since);
            let ended = log.ended.iter().rev().skip_while(|ended| ended.at > now);
            let ended = ended.take_while(|ended| ended.at >= since);
            (attempts.count(), ended.filter(|ended| ended.succeeded).count())
        });
        let predicted = |curve: &Curve| curve.between(since, now).round() as usize;
        let Prediction { attempts: all, answered: good, .. } = &self.prediction;
        [
            Pair { measured: attempts, predicted: predicted(all) },
            Pair { measured: answered, predicted: predicted(good) },
        ]
    }
}

impl Samples {
    /// Events after the end are not drawn.
    fn add(&mut self, log: &Log) {
        for arrived in &log.attempts[self.attempts_read..] {
            if let Some(count) = self.attempts.get_mut((arrived.at / self.sample) as usize) {
                *count += 1;
            }
        }
        for ended in log.ended[self.ended_read..].iter().filter(|ended| ended.succeeded) {
            if let Some(count) = self.answered.get_mut((ended.at / self.sample) as usize) {
                *count += 1;
            }
        }
        (self.attempts_read, self.ended_read) = (log.attempts.len(), log.ended.len());
    }

    fn pair(&self, counts: &[u32], predicted: &Curve, now: Nanos) -> Pair<Vec<f64>> {
        let complete = ((now / self.sample) as usize).min(counts.len());
        let per_second = SECOND as f64 / self.sample as f64;
        let measured = counts[..complete].iter().map(|count| f64::from(*count) * per_second);
        Pair { measured: measured.collect(), predicted: predicted.rates(self.sample, counts.len()) }
    }
}
