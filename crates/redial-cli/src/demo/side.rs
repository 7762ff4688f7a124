//! One of the two backends of the demo with its callers: the traffic so far, and its prediction.

use std::io;

use redial_cli::Curve;
use redial_core::{Span, Time};
use redial_live::{EventLog, LiveRun, LiveScenario, Naive, Redial, Running, start};
use redial_sim::{Scenario, Subject};

use super::DRAIN;
use super::prediction::Prediction;

/// A backend with its callers.
pub(super) struct Side {
    pub(super) name: String,
    prediction: Prediction,
    running: Running,
    samples: Samples,
    interrupted: Option<Time>,
}

/// The measured and the predicted result.
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) prediction: Prediction,
    pub(super) live: LiveRun,
    /// When Ctrl-C ended it.
    pub(super) interrupted: Option<Time>,
}

/// The samples to draw. They are updated from the new part of the log, because server and callers wait while it is read.
struct Samples {
    /// The duration of a sample.
    sample: Span,
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
        let setting = LiveScenario::of(scenario).map_err(io::Error::other)?.seed(seed).drain(DRAIN);
        let [(naive, naive_prediction), (redial, redial_prediction)] = subjects;
        let impatient = setting.clone().timeout(naive.policy.attempt_timeout_limit());
        let naive_running = start(impatient, |_| Naive::TYPICAL).map_err(io::Error::other)?;
        let redial_running = start(setting, |_| Redial::new(redial.policy.clone()));
        let redial_running = redial_running.map_err(io::Error::other)?;
        Ok([
            Self::new(naive.name, naive_prediction, naive_running, samples),
            Self::new(redial.name, redial_prediction, redial_running, samples),
        ])
    }

    fn new(name: String, prediction: Prediction, running: Running, samples: usize) -> Self {
        let sample = running.setting().scenario().duration.div_ceil(samples as u64);
        let (attempts, answered) = (vec![0; samples], vec![0; samples]);
        let samples = Samples { sample, attempts, answered, attempts_read: 0, ended_read: 0 };
        Self { name, prediction, running, samples, interrupted: None }
    }

    /// Time since the start, up to the end of the scenario.
    pub(super) fn now(&self) -> Time {
        self.running.now().min(Time::at(self.running.setting().scenario().duration))
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
        let since = now - Span::SECOND;
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
    fn add(&mut self, log: &EventLog) {
        for arrived in &log.attempts[self.attempts_read..] {
            let index = self.index(arrived.at);
            if let Some(count) = self.attempts.get_mut(index) {
                *count += 1;
            }
        }
        for ended in log.ended[self.ended_read..].iter().filter(|ended| ended.succeeded) {
            let index = self.index(ended.at);
            if let Some(count) = self.answered.get_mut(index) {
                *count += 1;
            }
        }
        (self.attempts_read, self.ended_read) = (log.attempts.len(), log.ended.len());
    }

    /// The sample that a time is in.
    fn index(&self, at: Time) -> usize {
        (at.since_zero() / self.sample) as usize
    }

    fn pair(&self, counts: &[u32], predicted: &Curve, now: Time) -> Pair<Vec<f64>> {
        let complete = self.index(now).min(counts.len());
        let per_second = Span::SECOND.ratio_to(self.sample);
        let measured = counts[..complete].iter().map(|count| f64::from(*count) * per_second);
        Pair { measured: measured.collect(), predicted: predicted.rates(self.sample, counts.len()) }
    }
}
