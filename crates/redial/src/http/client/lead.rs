//! Who decides what follows: most requests need nobody.

use redial_core::decide::Typed;
use redial_core::{NEVER, Nanos};

use super::layer::{Options, Whose};
use super::outgoing::Span;
use super::{BoxError, Error};
use crate::clock::Tokio;
use crate::retry::Retry;
use crate::session::{Passed, Session};

/// Who decides what follows.
pub(super) enum Lead {
    /// Nobody: the request is left alone.
    Alone,
    /// The first attempt went the short way, and the call ends by then.
    Light(Whose, Passed, Nanos),
    /// Not within the future: most requests never have one, and all would have to carry its size.
    Full(Box<Session<Retry, Typed, Tokio>>),
    /// The first attempt was refused.
    Refused(Option<Error>),
}

impl Lead {
    /// Asks the engine for the first attempt.
    #[inline(always)]
    pub(super) fn admit(options: &Options, whose: Whose, span: &Span) -> Self {
        let retry = whose.retry(options);
        if retry.pass_unkeyed(span.now, span.latest) {
            return Self::Light(whose, Passed::at(span.now), span.latest);
        }
        Self::full(retry, span)
    }

    /// For one that holds something or is watched.
    #[cold]
    fn full(retry: &Retry, span: &Span) -> Self {
        let mut session = Box::new(Session::start(retry.unkeyed(span.latest), span.now));
        match session.first::<BoxError>() {
            Ok(_) => Self::Full(session),
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
            Self::Full(session) => {
                if let (Some(hedge), Some(taken)) = (&options.hedge, session.taken()) {
                    hedge.learn(taken);
                }
                session.win();
                session.attempts()
            }
            Self::Alone | Self::Refused(_) => 1,
        }
    }

    pub(super) fn retry<'a>(&'a self, options: &'a Options) -> Option<&'a Retry> {
        match self {
            Self::Light(whose, ..) => Some(whose.retry(options)),
            Self::Full(session) => Some(session.retry()),
            Self::Alone | Self::Refused(_) => None,
        }
    }

    /// When a call that goes on has to be over.
    pub(super) fn deadline(&self) -> Nanos {
        match self {
            Self::Full(session) => session.deadline(),
            _ => NEVER,
        }
    }

    /// The session of a call that goes on.
    pub(super) fn session(
        &mut self,
        options: &Options,
    ) -> Option<&mut Session<Retry, Typed, Tokio>> {
        if let Self::Light(whose, passed, latest) = self {
            let retry = whose.retry(options).unkeyed(*latest);
            *self = Self::Full(Box::new(Session::resume(retry, *passed)));
        }
        match self {
            Self::Full(session) => Some(session),
            _ => None,
        }
    }
}
