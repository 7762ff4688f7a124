use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use redial_core::admit::Guards;
use redial_core::storm::Level;
use redial_core::{CallInfo, Event, Nanos, Observer, nanos};

use super::counts::{Counts, Stripe};
use super::registry::{Registry, lock};
use super::storm::{Reading, StormChanged};
use super::window::Window;
use crate::clock::{Ambient, Clock};
use crate::inbound::Inbound;
use crate::thread_state::stripe;

/// Counts what happens to the calls to one upstream, and says when they become a storm.
///
/// Clones are the same meter, and so are two meters of the same name. Give it to every [`Retry`](crate::Retry) whose
/// calls go there; [`publish`](super::publish) hands the numbers on. A process has at most 256 names; what comes later is
/// counted as `other`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// use redial::telemetry::Meter;
/// use redial::{Policy, Retry};
///
/// let payments = Meter::new("payments");
/// let retry = Retry::new(Policy::standard()).idempotent().meter(payments.clone());
/// retry.run(|_| async { Ok::<_, std::io::Error>(()) }).await.unwrap();
/// assert_eq!(payments.reading().flow.calls, 1);
/// # }
/// ```
#[derive(Clone)]
pub struct Meter(pub(super) Arc<Core>);

/// What the clones of a meter share.
pub(crate) struct Core {
    pub(super) upstream: String,
    pub(super) counts: Counts,
    window: Window,
    /// The level as of the last judgement, as a number.
    level: AtomicU8,
    on_change: Mutex<Vec<OnChange>>,
    /// Whose budgets and breakers are this upstream's.
    watched: Mutex<Vec<Weak<dyn Watched>>>,
}

type OnChange = Arc<dyn Fn(&StormChanged) + Send + Sync>;

/// Somebody who has guards.
pub(crate) trait Watched: Send + Sync {
    fn each(&self, see: &mut dyn FnMut(&Guards));
}

/// Retries of which one meter shows the budgets and breakers.
const MOST_WATCHED: usize = 1024;

impl Meter {
    /// The meter of this name, whose window is a minute unless it was made with another one.
    pub fn new(upstream: impl Into<String>) -> Self {
        Registry::global().meter(upstream)
    }

    /// As [`new`](Self::new), with a storm detector that looks back this far: a second to an hour, and the nearer of
    /// these when it is outside. A meter of this name that exists already keeps its own.
    pub fn over(upstream: impl Into<String>, window: Duration) -> Self {
        Registry::global().meter_over(upstream, window)
    }

    pub(super) fn made(upstream: String, window: Duration) -> Self {
        let window = window.clamp(Duration::from_secs(1), Duration::from_secs(3600));
        Self(Arc::new(Core {
            upstream,
            counts: Counts::default(),
            window: Window::new(nanos(window), Ambient::now()),
            level: AtomicU8::new(Level::Calm as u8),
            on_change: Mutex::default(),
            watched: Mutex::default(),
        }))
    }

    /// The name that the numbers are published under.
    pub fn upstream(&self) -> &str {
        &self.0.upstream
    }

    /// What went to the upstream lately, and how bad that is.
    pub fn reading(&self) -> Reading {
        self.0.reading(Ambient::now())
    }

    /// Calls `told` whenever the level changes: at the first call of each thirtieth of the window, and when somebody
    /// takes a [`reading`](Self::reading) or publishes, which is the only way for a storm to end when the calls end too.
    /// It runs inside a call: be quick, and never block.
    pub fn on_change(&self, told: impl Fn(&StormChanged) + Send + Sync + 'static) {
        lock(&self.0.on_change).push(Arc::new(told));
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0
    }
}

impl Core {
    /// The counters for calls of the thread with this number. The window does not advance for calls on the fast
    /// path: successes make no storm, and calls between two notes are taken as spread evenly.
    #[inline(always)]
    pub(crate) fn stripe(&self, number: usize) -> &Arc<Stripe> {
        self.counts.stripe(number)
    }

    #[cold]
    fn turn(&self, now: Nanos) {
        if self.window.turn(now, || self.counts.totals()) {
            self.reading(now);
        }
    }

    pub(super) fn reading(&self, now: Nanos) -> Reading {
        let reading = Reading::of(self.window.flows(now, || self.counts.totals()));
        let before = self.level.swap(reading.level as u8, Ordering::AcqRel);
        if before != reading.level as u8 {
            let levels = [Level::Calm, Level::Warn, Level::Storm, Level::Critical];
            self.tell(levels[usize::from(before) & 3], reading);
        }
        reading
    }

    /// Not while the lock is held: who is told may look at the meter.
    fn tell(&self, from: Level, reading: Reading) {
        let told = lock(&self.on_change).clone();
        let changed = StormChanged { upstream: self.upstream.clone(), from, reading };
        told.iter().for_each(|told| told(&changed));
    }

    pub(crate) fn watch(&self, guarded: &Arc<impl Watched + 'static>) {
        let guarded: Weak<dyn Watched> = Arc::downgrade(guarded) as _;
        let mut watched = lock(&self.watched);
        if watched.iter().any(|known| known.ptr_eq(&guarded)) {
            return;
        }
        watched.retain(|known| known.strong_count() > 0);
        if watched.len() < MOST_WATCHED {
            watched.push(guarded);
        }
    }

    /// Every set of guards that calls to this upstream are made under.
    pub(super) fn guards(&self, see: &mut dyn FnMut(&Guards)) {
        let watched: Vec<_> = lock(&self.watched).iter().filter_map(Weak::upgrade).collect();
        watched.iter().for_each(|watched| watched.each(see));
    }
}

impl Observer for Core {
    fn event(&self, event: &Event) {
        self.call_event(CallInfo::default(), event);
    }

    fn call_event(&self, _: CallInfo, event: &Event) {
        if matches!(event, Event::Attempt { .. } | Event::Stopped { .. }) {
            let now = Ambient::now();
            if self.window.is_over(now) {
                self.turn(now);
            }
        }
        let again = || Inbound::current().is_retry();
        self.counts.event(self.counts.stripe(stripe()), again, event);
    }
}

/// So that a meter can be told of calls that nobody here makes, such as those of a queue's workers.
impl Observer for Meter {
    fn event(&self, event: &Event) {
        self.0.event(event);
    }

    fn call_event(&self, call: CallInfo, event: &Event) {
        self.0.call_event(call, event);
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("upstream", &self.0.upstream).finish_non_exhaustive()
    }
}
