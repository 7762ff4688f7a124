use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use redial_core::admit::Guards;
use redial_core::storm::Level;
use redial_core::{CallInfo, Event, Observer, Time};

use super::counts::{Counts, Stripe};
use super::registry::{Registry, lock};
use super::storm::{Reading, StormChanged};
use super::window::Window;
use crate::clock::{Ambient, Clock};
use crate::inbound::Inbound;
use crate::thread_state::stripe;

/// Counts the calls to one upstream, and reports when they become a storm.
///
/// Clones are the same meter, and so are two meters with the same name. Pass it to every [`Retry`](crate::Retry) that calls
/// this upstream; [`publish`](super::publish) publishes the numbers. A process has at most 256 names; later ones are
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

/// State shared by the clones of a meter.
pub(crate) struct Core {
    pub(super) upstream: String,
    pub(super) counts: Counts,
    window: Window,
    /// The level at the last reading, as a number.
    level: AtomicU8,
    on_change: Mutex<Vec<OnChange>>,
    /// The holders of this upstream's budgets and breakers.
    watched: Mutex<Vec<Weak<dyn Watched>>>,
}

type OnChange = Arc<dyn Fn(&StormChanged) + Send + Sync>;

/// A holder of guards.
pub(crate) trait Watched: Send + Sync {
    fn each(&self, see: &mut dyn FnMut(&Guards));
}

/// The most holders whose budgets and breakers one meter publishes.
const MOST_WATCHED: usize = 1024;

impl Meter {
    /// The meter with this name. Its window is a minute, unless it was created with another one.
    pub fn new(upstream: impl Into<String>) -> Self {
        Registry::global().meter(upstream)
    }

    /// Like [`new`](Self::new), with a storm detector that looks back this far, from 1 s to 1 h. Values outside are clamped.
    /// An existing meter with this name keeps its window.
    pub fn over(upstream: impl Into<String>, window: Duration) -> Self {
        Registry::global().meter_over(upstream, window)
    }

    pub(super) fn made(upstream: String, window: Duration) -> Self {
        let window = window.clamp(Duration::from_secs(1), Duration::from_secs(3600));
        Self(Arc::new(Core {
            upstream,
            counts: Counts::default(),
            window: Window::new(window.into(), Ambient::now()),
            level: AtomicU8::new(Level::Calm as u8),
            on_change: Mutex::default(),
            watched: Mutex::default(),
        }))
    }

    /// The name that the numbers are published under.
    pub fn upstream(&self) -> &str {
        &self.0.upstream
    }

    /// The recent traffic to the upstream, and its storm level.
    pub fn reading(&self) -> Reading {
        self.0.reading(Ambient::now())
    }

    /// Calls `observer` whenever the level changes. The level is computed at the first call of each thirtieth of the window,
    /// and by every [`reading`](Self::reading) and publish; without calls, only these can end a storm. The observer runs
    /// inside a call and must not block.
    pub fn on_change(&self, observer: impl Fn(&StormChanged) + Send + Sync + 'static) {
        lock(&self.0.on_change).push(Arc::new(observer));
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0
    }
}

impl Core {
    /// The counters for calls of the thread with this number. Calls on the fast path take no snapshot: successes
    /// cause no storm, and calls between two snapshots count as evenly distributed.
    #[inline(always)]
    pub(crate) fn stripe(&self, number: usize) -> &Arc<Stripe> {
        self.counts.stripe(number)
    }

    #[cold]
    fn turn(&self, now: Time) {
        if self.window.turn(now, || self.counts.totals()) {
            self.reading(now);
        }
    }

    pub(super) fn reading(&self, now: Time) -> Reading {
        let reading = Reading::of(self.window.flows(now, || self.counts.totals()));
        let before = self.level.swap(reading.level as u8, Ordering::AcqRel);
        if before != reading.level as u8 {
            let levels = [Level::Calm, Level::Warn, Level::Storm, Level::Critical];
            self.notify(levels[usize::from(before) & 3], reading);
        }
        reading
    }

    /// Notifies the observers without holding the lock: they may read the meter.
    fn notify(&self, from: Level, reading: Reading) {
        let observers = lock(&self.on_change).clone();
        let changed = StormChanged { upstream: self.upstream.clone(), from, reading };
        observers.iter().for_each(|observer| observer(&changed));
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

    /// Calls `see` for every set of guards of this upstream.
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
        let inherited = || Inbound::current().is_retry();
        self.counts.event(self.counts.stripe(stripe()), inherited, event);
    }
}

/// For calls that are made without a [`Retry`](crate::Retry), such as those of a queue's workers.
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
