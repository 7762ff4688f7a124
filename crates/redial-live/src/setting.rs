use std::{error, fmt, io};

use rand_distr::{Distribution as _, Exp1};
use redial_core::Nanos;
use redial_sim::Stream;

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;

/// What is run: who calls, and what answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Who calls, and how often.
    pub load: Load,
    /// How many processes the callers stand for: those of one share whatever their way of retrying keeps.
    pub instances: u32,
    /// How long a caller waits for the answer to an attempt. The backend works on it all the same.
    pub timeout: Option<Nanos>,
    /// How many requests are worked on at once.
    pub servers: u32,
    /// How long one of them takes.
    pub service: Time,
    /// How many wait for a place; everybody beyond is turned away with a 503, at once.
    pub queue: u32,
    /// While it lasts, everybody is turned away. What was accepted before is finished.
    pub outage: Option<Window>,
    /// While it lasts, some are turned away.
    pub brownout: Option<Brownout>,
    /// No call begins after that.
    pub duration: Nanos,
    /// How much longer those that have begun may take; what is unfinished then is cut off.
    pub drain: Nanos,
    /// Names the random numbers of callers and backend. What the network and the threads do has no seed.
    pub seed: u64,
}

impl Default for Setting {
    /// A thousand requests a second can be served and 200 can wait; 400 callers ask for 0.8 of that, five seconds long,
    /// and nothing goes wrong.
    fn default() -> Self {
        Self {
            load: Load::Closed { callers: 400, think: Time::Exponential(490 * MS) },
            instances: 1,
            timeout: None,
            servers: 8,
            service: Time::Constant(8 * MS),
            queue: 200,
            outage: None,
            brownout: None,
            duration: 5 * SECOND,
            drain: SECOND,
            seed: 1,
        }
    }
}

/// Who calls, and how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Each of them thinks, calls, and thinks again when the call has ended.
    Closed {
        /// How many there are.
        callers: u32,
        /// How long they think.
        think: Time,
    },
    /// Calls come from outside, whatever becomes of those before.
    Open {
        /// How long after one call the next one comes.
        gap: Time,
    },
}

/// How long something takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Always this long.
    Constant(Nanos),
    /// Exponentially distributed, with this mean.
    Exponential(Nanos),
}

/// A part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// When it begins.
    pub start: Nanos,
    /// How long it lasts.
    pub duration: Nanos,
}

/// A part of the run in which a share of the requests is turned away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Brownout {
    /// When.
    pub window: Window,
    /// The share, from 0 to 1.
    pub share: f64,
}

/// Why a setting cannot be run.
#[derive(Debug)]
pub enum Error {
    /// One of its fields makes no sense.
    Setting {
        /// Which.
        field: &'static str,
        /// What would.
        wanted: &'static str,
    },
    /// The machine would not give us a thread or a port.
    Io(io::Error),
}

impl Setting {
    /// Requests that can be served in a second.
    pub fn capacity(&self) -> f64 {
        f64::from(self.servers) * SECOND as f64 / self.service.mean() as f64
    }

    /// From the first thing that goes wrong to the last.
    pub fn trouble(&self) -> Option<Window> {
        let brownout = self.brownout.map(|brownout| brownout.window);
        let windows = || [self.outage, brownout].into_iter().flatten();
        let start = windows().map(|window| window.start).min()?;
        let end = windows().map(|window| window.end()).max()?;
        Some(Window { start, duration: end - start })
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let (who, pause) = match self.load {
            Load::Closed { callers, think } => (callers, think),
            Load::Open { gap } => (1, gap),
        };
        let share = self.brownout.map_or(0.0, |brownout| brownout.share);
        let wrong = [
            (!(1..=100_000).contains(&who), "callers", "1 to 100,000"),
            (pause.mean() == 0, "load", "a think time or gap above 0"),
            (self.instances == 0, "instances", "at least 1"),
            (self.timeout == Some(0), "timeout", "more than 0"),
            (!(1..=100_000).contains(&self.servers), "servers", "1 to 100,000"),
            (self.service.mean() == 0, "service", "more than 0"),
            (!(0.0..=1.0).contains(&share), "brownout.share", "0 to 1"),
            (self.duration > 3_600 * SECOND, "duration", "at most an hour"),
        ];
        match wrong.into_iter().find(|(is_wrong, ..)| *is_wrong) {
            Some((_, field, wanted)) => Err(Error::Setting { field, wanted }),
            None => Ok(()),
        }
    }
}

impl Time {
    /// How long it takes on average.
    pub fn mean(self) -> Nanos {
        match self {
            Self::Constant(mean) | Self::Exponential(mean) => mean,
        }
    }

    /// How long it takes this time.
    pub fn draw(self, stream: &mut Stream) -> Nanos {
        match self {
            Self::Constant(time) => time,
            Self::Exponential(mean) => {
                let unit: f64 = Exp1.sample(stream);
                (unit * mean as f64) as Nanos
            }
        }
    }

    /// How much of it is left for somebody who looks at a random moment.
    pub(crate) fn draw_rest(self, stream: &mut Stream) -> Nanos {
        match self {
            Self::Constant(time) => stream.bits() % time.max(1),
            // It has no memory.
            Self::Exponential(_) => self.draw(stream),
        }
    }
}

impl Window {
    /// When it is over.
    pub fn end(self) -> Nanos {
        self.start.saturating_add(self.duration)
    }

    /// Whether `at` lies in it.
    pub fn contains(self, at: Nanos) -> bool {
        (self.start..self.end()).contains(&at)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting { field, wanted } => write!(f, "`{field}` must be {wanted}"),
            Self::Io(error) => write!(f, "no traffic on loopback: {error}"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Setting { .. } => None,
            Self::Io(error) => Some(error),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
