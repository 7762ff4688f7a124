//! Who decides what follows: most requests need nobody.

use std::ops::{Deref, DerefMut};
#[cfg(feature = "metrics")]
use std::sync::Arc;

use redial_core::decide::Typed;
use redial_core::{NEVER, Nanos, Permit};

use super::layer::{Options, Whose};
use super::outgoing::Span;
use super::{BoxError, Error};
use crate::clock::{Clock as _, Tokio};
use crate::retry::Retry;
use crate::session::{Passed, Session};
#[cfg(feature = "metrics")]
use crate::telemetry::{Counted, Stripe};

/// Who decides what follows.
pub(super) enum Lead {
    /// Nobody: the request is left alone.
    Alone,
    /// The first attempt went the short way, and the call ends by then.
    Light(Whose, Passed, Nanos),
    /// The same, and a meter counts it.
    #[cfg(feature = "metrics")]
    Counted(Whose, Passed, Nanos, Counted<Arc<Stripe>, Tokio>),
    /// Not within the future: most requests never have one, and all would have to carry its size.
    Full(Box<Course>),
    /// The first attempt was refused.
    Refused(Option<Error>),
}

/// A call with all its attempts that are on their way.
pub(super) struct Course {
    session: Session<Retry, Typed, Tokio>,
    /// Those beside the one that the session settles next.
    aside: Vec<Permit>,
}

impl Deref for Course {
    type Target = Session<Retry, Typed, Tokio>;

    fn deref(&self) -> &Self::Target {
        &self.session
    }
}

impl DerefMut for Course {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.session
    }
}

impl Drop for Course {
    fn drop(&mut self) {
        for permit in self.aside.drain(..) {
            self.session.abandon(permit);
        }
    }
}

impl Course {
    fn new(session: Session<Retry, Typed, Tokio>) -> Box<Self> {
        Box::new(Self { session, aside: Vec::new() })
    }

    /// Whether others are on their way.
    pub(super) fn has_aside(&self) -> bool {
        !self.aside.is_empty()
    }

    /// Lets the attempt go on while others are made. Its number.
    pub(super) fn set_aside(&mut self) -> Option<u32> {
        let permit = self.session.permit.take()?;
        let number = permit.number;
        self.aside.push(permit);
        Some(number)
    }

    /// An attempt that was set aside has ended.
    pub(super) fn recall(&mut self, number: u32) {
        if let Some(place) = self.aside.iter().position(|permit| permit.number == number) {
            self.session.permit = Some(self.aside.swap_remove(place));
        }
    }

    /// How long the oldest attempt on its way has taken: when a hedge wins, its own time says nothing of
    /// the slow attempt that it was sent beside.
    fn taken(&self) -> Option<Nanos> {
        let out = self.aside.iter().chain(&self.session.permit);
        let oldest = out.map(|permit| permit.started).min()?;
        Some(Tokio::now().saturating_sub(oldest))
    }
}

impl Lead {
    /// Asks the engine for the first attempt.
    #[inline(always)]
    pub(super) fn admit(options: &Options, whose: Whose, span: &Span) -> Self {
        let retry = whose.retry(options);
        if retry.pass_unkeyed(span.now, span.latest) {
            return Self::Light(whose, Passed::at(span.now), span.latest);
        }
        #[cfg(feature = "metrics")]
        if let Some(counted) = retry.count_unkeyed(span.now, span.latest) {
            return Self::Counted(whose, Passed::at(span.now), span.latest, counted);
        }
        Self::full(retry, span)
    }

    /// Whether the first attempt went the short way, and nothing followed yet.
    #[inline(always)]
    pub(super) fn is_short(&self) -> bool {
        match self {
            Self::Light(..) => true,
            #[cfg(feature = "metrics")]
            Self::Counted(..) => true,
            _ => false,
        }
    }

    /// For one that holds something or is watched.
    #[cold]
    fn full(retry: &Retry, span: &Span) -> Self {
        let mut session = Session::start(retry.unkeyed(span.latest), span.now);
        match session.first::<BoxError>() {
            Ok(_) => Self::Full(Course::new(session)),
            Err(error) => Self::Refused(Some(error.into())),
        }
    }

    /// Settles a success. How many attempts it took.
    #[inline(always)]
    pub(super) fn win(&mut self, options: &Options) -> u32 {
        match self {
            Self::Light(whose, passed, _) => {
                if let Some(hedge) = &options.hedge {
                    hedge.learn(passed.taken::<Tokio>());
                }
                passed.succeed::<Typed, Tokio>(whose.retry(options));
                1
            }
            #[cfg(feature = "metrics")]
            Self::Counted(whose, passed, _, counted) => {
                if let Some(hedge) = &options.hedge {
                    hedge.learn(passed.taken::<Tokio>());
                }
                counted.end(passed.started(), whose.retry(options).guards());
                1
            }
            Self::Full(course) => {
                if let (Some(hedge), Some(taken)) = (&options.hedge, course.taken()) {
                    hedge.learn(taken);
                }
                course.win();
                course.attempts()
            }
            Self::Alone | Self::Refused(_) => 1,
        }
    }

    pub(super) fn retry<'a>(&'a self, options: &'a Options) -> Option<&'a Retry> {
        match self {
            Self::Light(whose, ..) => Some(whose.retry(options)),
            #[cfg(feature = "metrics")]
            Self::Counted(whose, ..) => Some(whose.retry(options)),
            Self::Full(course) => Some(course.retry()),
            Self::Alone | Self::Refused(_) => None,
        }
    }

    /// How many attempts were made.
    pub(super) fn attempts(&self) -> u32 {
        match self {
            Self::Full(course) => course.attempts(),
            _ => 1,
        }
    }

    /// When a call that goes on has to be over.
    pub(super) fn deadline(&self) -> Nanos {
        match self {
            Self::Full(course) => course.deadline(),
            _ => NEVER,
        }
    }

    /// The session of a call that goes on.
    pub(super) fn session(&mut self, options: &Options) -> Option<&mut Course> {
        if let Self::Light(whose, passed, latest) = self {
            let retry = whose.retry(options).unkeyed(*latest);
            *self = Self::Full(Course::new(Session::resume(retry, *passed)));
        }
        #[cfg(feature = "metrics")]
        if matches!(self, Self::Counted(..))
            && let Self::Counted(whose, passed, latest, counted) =
                std::mem::replace(self, Self::Alone)
        {
            let retry = whose.retry(options).unkeyed(latest);
            let session = Session::resume(retry, passed);
            counted.go_on();
            *self = Self::Full(Course::new(session));
        }
        match self {
            Self::Full(course) => Some(course),
            _ => None,
        }
    }
}
