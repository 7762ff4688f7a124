//! Who decides what follows: most requests need nobody.

use std::ops::{Deref, DerefMut};

use http::{HeaderMap, Method, Request, Uri};
use redial_core::decide::{Failure, Typed};
use redial_core::{NEVER, Nanos, Permit};
use tower_service::Service;

use super::future::State;
use super::layer::{Options, Whose};
use super::outgoing::Span;
use super::{BoxError, Error};
use crate::clock::{Clock as _, Tokio};
use crate::retry::Retry;
use crate::session::{Passed, Session};
use crate::spans::{Current, Entered};
#[cfg(feature = "metrics")]
use crate::telemetry::{Counted, Held};

/// What is asked of the server.
pub(super) struct Asked<'a> {
    pub(super) method: &'a Method,
    pub(super) uri: &'a Uri,
    pub(super) grpc: bool,
}

/// Who decides what follows.
pub(super) enum Lead {
    /// Nobody: the request is left alone.
    Alone,
    /// The first attempt went the short way, and the call ends by then.
    Light(Whose, Passed, Nanos),
    /// The same, and a meter counts it.
    #[cfg(feature = "metrics")]
    Counted(Whose, Nanos, Counted<Held, Tokio>),
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
    /// The span of the attempt that the future holds, if there are spans.
    current: Option<Current>,
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
        Box::new(Self { session, aside: Vec::new(), current: None })
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

    /// Enters the span of the attempt that was admitted last, and writes it on the request.
    #[cold]
    fn enter(&mut self, headers: &mut HeaderMap) -> Option<Entered> {
        self.current = self.session.current();
        let current = self.current.as_ref()?;
        current.write(headers);
        Some(current.enter())
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
    pub(super) fn admit(options: &Options, whose: Whose, span: &Span, asked: &Asked<'_>) -> Self {
        let retry = whose.retry(options);
        if retry.pass_unkeyed(span.now, span.latest) {
            return Self::Light(whose, Passed::at(span.now), span.latest);
        }
        #[cfg(feature = "metrics")]
        if let Some(counted) = retry.count_unkeyed(span.now, span.latest) {
            return Self::Counted(whose, span.latest, counted);
        }
        Self::full(retry, span, asked)
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
    fn full(retry: &Retry, span: &Span, asked: &Asked<'_>) -> Self {
        let mut session = Session::start(retry.unkeyed(span.latest), span.now);
        session.trace_mut().request(asked.method, asked.uri, asked.grpc);
        match session.first::<BoxError>() {
            Ok(_) => Self::Full(Course::new(session)),
            Err(error) => Self::Refused(Some(error.into())),
        }
    }

    /// Sends the attempt that was admitted last.
    pub(super) fn send<S: Service<Request<B>>, B, R>(
        &mut self,
        service: &mut S,
        mut request: Request<B>,
    ) -> State<S::Future, R> {
        let _entered = match self {
            Self::Refused(_) => return State::Over,
            Self::Full(course) => course.enter(request.headers_mut()),
            _ => None,
        };
        let call = service.call(request);
        match self {
            Self::Full(_) => State::Traced { call },
            _ => State::Calling { call },
        }
    }

    /// Does something in the span of the attempt that the future holds.
    pub(super) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        match self {
            Self::Full(course) => match &course.current {
                Some(current) => current.during(work),
                None => work(),
            },
            _ => work(),
        }
    }

    /// The attempt that is settled next got a response.
    pub(super) fn responded(&mut self, status: u16) {
        if let Self::Full(course) = self
            && let Some(number) = course.session.permit.as_ref().map(|permit| permit.number)
        {
            course.session.trace_mut().responded(number, status);
        }
    }

    /// No server looked at the attempt, and it leaves anew.
    pub(super) fn turned_away(&mut self, failure: Failure) {
        if let Self::Full(course) = self {
            let number = course.attempts();
            course.session.trace_mut().landed(number, &failure.into(), Tokio::now());
        }
    }

    /// The same attempt leaves once more.
    pub(super) fn anew(&mut self) {
        if let Self::Full(course) = self {
            let number = course.attempts();
            course.session.trace_mut().anew(number, Tokio::now());
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
            Self::Counted(whose, _, counted) => {
                let retry = whose.retry(options);
                if let Some(hedge) = &options.hedge {
                    hedge.learn(counted.passed().taken::<Tokio>());
                }
                counted.succeed(retry.guards(), retry.now::<Tokio>());
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
            && let Self::Counted(whose, latest, mut counted) = std::mem::replace(self, Self::Alone)
        {
            let retry = whose.retry(options).unkeyed(latest);
            *self = Self::Full(Course::new(Session::resume(retry, counted.go_on())));
        }
        match self {
            Self::Full(course) => Some(course),
            _ => None,
        }
    }
}
