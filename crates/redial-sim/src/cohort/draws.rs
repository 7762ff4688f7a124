//! Random counts, drawn at once instead of one by one.

use rand_distr::{Binomial, Distribution as _, Poisson, StandardNormal};

use crate::Stream;

/// From this variance on, a count is drawn from a rounded normal distribution: its skew is below a thirtieth.
const NORMAL: f64 = 1_000.0;
/// Up to this many are drawn one by one.
const FEW: u64 = 32;

/// How many of `n` independent events happen, each with this probability.
pub(super) fn binomial(n: u64, p: f64, stream: &mut Stream) -> u64 {
    if n == 0 || p <= 0.0 {
        return 0;
    }
    if p >= 1.0 {
        return n;
    }
    let mean = n as f64 * p;
    let variance = mean * (1.0 - p);
    if variance > NORMAL {
        return normal(mean, variance, stream).min(n);
    }
    if n == 1 {
        return u64::from(stream.chance(p));
    }
    Binomial::new(n, p).map_or(0, |hits| hits.sample(stream)).min(n)
}

/// How many independent events happen, with this mean.
pub(super) fn poisson(mean: f64, stream: &mut Stream) -> u64 {
    if mean <= 0.0 {
        return 0;
    }
    if mean > NORMAL {
        return normal(mean, mean, stream);
    }
    Poisson::new(mean).map_or(0.0, |count| count.sample(stream)) as u64
}

/// Rounds `x` up or down at random, so that the mean is `x`.
pub(super) fn whole(x: f64, stream: &mut Stream) -> u64 {
    (x + stream.unit()) as u64
}

fn normal(mean: f64, variance: f64, stream: &mut Stream) -> u64 {
    let one: f64 = StandardNormal.sample(stream);
    (mean + variance.sqrt() * one + 0.5) as u64
}

/// A random selection of some among all, group by group: sampling without replacement.
#[derive(Debug)]
pub(super) struct Selection {
    chosen: u64,
    all: u64,
}

impl Selection {
    /// Selects `chosen` of `all`.
    pub(super) fn new(chosen: u64, all: u64) -> Self {
        Self { chosen: chosen.min(all), all }
    }

    /// How many of the next group, of `n` members, are selected. The groups must add up to `all`.
    pub(super) fn of(&mut self, n: u64, stream: &mut Stream) -> u64 {
        let hits = self.draw(n, stream);
        self.chosen -= hits;
        self.all -= n;
        hits
    }

    fn draw(&self, n: u64, stream: &mut Stream) -> u64 {
        let Self { chosen, all } = *self;
        let others = all - n;
        if n == 0 || chosen == 0 || chosen == all || others == 0 {
            return if chosen == all { n } else { chosen.min(n) };
        }
        let least = chosen.saturating_sub(others);
        let most = n.min(chosen);
        if chosen <= FEW {
            return one_by_one(chosen, n, all, stream);
        }
        if all - chosen <= FEW {
            return n - one_by_one(all - chosen, n, all, stream);
        }
        let share = chosen as f64 / all as f64;
        let mean = n as f64 * share;
        let variance = mean * (1.0 - share) * others as f64 / (all - 1) as f64;
        let hits = if variance > NORMAL {
            normal(mean, variance, stream)
        } else if n <= others {
            binomial(n, share, stream)
        } else {
            chosen.saturating_sub(binomial(others, share, stream))
        };
        hits.clamp(least, most)
    }
}

/// How many of `draws` fall into a group of `n` among `all`.
fn one_by_one(draws: u64, n: u64, all: u64, stream: &mut Stream) -> u64 {
    let mut hits = 0;
    for drawn in 0..draws {
        let left = (all - drawn) as f64;
        hits += u64::from(stream.unit() * left < (n - hits) as f64);
    }
    hits
}
