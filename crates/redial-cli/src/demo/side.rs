use std::io;

use redial_core::Nanos;
use redial_live::{Live, Log, Naive, Redial, Running, Setting, start};

use super::chart::SAMPLES;
use crate::policy::Named;

/// A backend with its callers.
pub(super) struct Side {
    pub(super) name: String,
    running: Running,
    seen: Seen,
}

/// What there is to draw. It is brought up to date from what is new in the log, because server and callers wait while
/// somebody reads it.
pub(super) struct Seen {
    /// How long a sample lasts.
    sample: Nanos,
    attempts: Vec<u32>,
    answered: Vec<u32>,
    attempts_read: usize,
    ended_read: usize,
}

impl Side {
    /// The naive loop and Redial, started together.
    pub(super) fn both(setting: &Setting, named: &Named) -> io::Result<[Self; 2]> {
        let naive = start(setting.clone(), |_| Naive::SEED).map_err(io::Error::other)?;
        let redial = start(setting.clone(), |_| Redial::new(named.policy.clone()));
        let redial = redial.map_err(io::Error::other)?;
        Ok([Self::new("naive".into(), naive), Self::new(format!("redial {}", named.name), redial)])
    }

    fn new(name: String, running: Running) -> Self {
        let sample = running.setting().duration.div_ceil(SAMPLES as Nanos).max(1);
        let (attempts, answered) = (vec![0; SAMPLES], vec![0; SAMPLES]);
        let seen = Seen { sample, attempts, answered, attempts_read: 0, ended_read: 0 };
        Self { name, running, seen }
    }

    pub(super) fn now(&self) -> Nanos {
        self.running.now().min(self.running.setting().duration)
    }

    pub(super) fn is_over(&self) -> bool {
        self.running.is_over()
    }

    pub(super) fn stop(&mut self) {
        self.running.stop();
    }

    /// Takes in what has happened since the last look.
    pub(super) fn look(&mut self) {
        let Self { running, seen, .. } = self;
        running.record().read(|log| seen.take_in(log));
    }

    pub(super) fn finish(self) -> Live {
        self.running.finish()
    }

    /// Attempts per second at the backend, for each sample that is complete.
    pub(super) fn attempts(&self) -> Vec<f64> {
        self.seen.rates(&self.seen.attempts, self.running.now())
    }

    /// Calls per second that got their answer.
    pub(super) fn answered(&self) -> Vec<f64> {
        self.seen.rates(&self.seen.answered, self.running.now())
    }

    /// Attempts and answered calls of the second that ends now.
    pub(super) fn last_second(&self) -> (usize, usize) {
        let since = self.running.now().saturating_sub(super::SECOND);
        self.running.record().read(|log| {
            let attempts = log.attempts.iter().rev().take_while(|arrived| arrived.at >= since);
            let ended = log.ended.iter().rev().take_while(|ended| ended.at >= since);
            (attempts.count(), ended.filter(|ended| ended.succeeded).count())
        })
    }
}

impl Seen {
    fn take_in(&mut self, log: &Log) {
        let last = SAMPLES - 1;
        for arrived in &log.attempts[self.attempts_read..] {
            self.attempts[((arrived.at / self.sample) as usize).min(last)] += 1;
        }
        for ended in log.ended[self.ended_read..].iter().filter(|ended| ended.succeeded) {
            self.answered[((ended.at / self.sample) as usize).min(last)] += 1;
        }
        (self.attempts_read, self.ended_read) = (log.attempts.len(), log.ended.len());
    }

    fn rates(&self, counts: &[u32], now: Nanos) -> Vec<f64> {
        let complete = ((now / self.sample) as usize).min(SAMPLES);
        let per_second = super::SECOND as f64 / self.sample as f64;
        counts[..complete].iter().map(|count| f64::from(*count) * per_second).collect()
    }
}
