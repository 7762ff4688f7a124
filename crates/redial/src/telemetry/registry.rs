use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::Recorder;

use super::meter::Meter;
use super::publish::Publisher;
use super::server::ServerMeter;
use super::snapshot::Snapshot;
use super::storm::Reading;

/// The meters of a process, by name.
///
/// Most programs need only the [global](Self::global) one, which [`Meter::new`] and [`publish`](super::publish) use. It
/// keeps its meters for as long as the process runs: a counter that was reset in idle times would hide what happened
/// before.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

#[derive(Default)]
struct Inner {
    known: Mutex<Known>,
    /// A separate lock, because a recorder may create a meter.
    published: Mutex<Published>,
}

#[derive(Default)]
struct Known {
    meters: HashMap<String, Meter>,
    servers: HashMap<String, ServerMeter>,
}

#[derive(Default)]
struct Published {
    publisher: Publisher,
    /// The address of the recorder that `publisher` has published to, to notice when another one is installed.
    recorder: usize,
}

/// The name for meters beyond the limit.
const OTHER: &str = "other";

impl Registry {
    /// This many upstreams and this many servers have separate meters; later ones are `other`.
    pub const MOST_NAMES: usize = 256;

    /// A registry without meters.
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// The registry of the process.
    pub fn global() -> &'static Self {
        static GLOBAL: LazyLock<Registry> = LazyLock::new(Registry::new);
        &GLOBAL
    }

    /// See [`Meter::new`].
    pub fn meter(&self, upstream: impl Into<String>) -> Meter {
        self.meter_over(upstream, Duration::from_secs(60))
    }

    /// See [`Meter::over`].
    pub fn meter_over(&self, upstream: impl Into<String>, window: Duration) -> Meter {
        let make = |name| Meter::made(name, window);
        find(&mut lock(&self.0.known).meters, upstream.into(), make)
    }

    /// See [`ServerMeter::new`].
    pub fn server(&self, server: impl Into<String>) -> ServerMeter {
        find(&mut lock(&self.0.known).servers, server.into(), ServerMeter::made)
    }

    /// Publishes the numbers of all meters to the installed recorder. A recorder that is installed after the first call
    /// gets all numbers at the next one.
    pub fn publish(&self) {
        let (meters, servers) = self.read();
        let mut published = lock(&self.0.published);
        metrics::with_recorder(|recorder| {
            let address = std::ptr::from_ref(recorder).cast::<()>().addr();
            if std::mem::replace(&mut published.recorder, address) != address {
                published.publisher = Publisher::default();
            }
            published.publisher.publish(recorder, &meters, &servers);
        });
    }

    /// Publishes the numbers of all meters to `recorder`. `publisher` remembers what was published: use one for each
    /// recorder and registry.
    pub fn publish_to(&self, recorder: &dyn Recorder, publisher: &mut Publisher) {
        let (meters, servers) = self.read();
        publisher.publish(recorder, &meters, &servers);
    }

    /// What all meters have counted, by name.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        let (meters, _) = self.read();
        let mut all: Vec<_> =
            meters.iter().map(|(meter, reading)| Snapshot::of(meter, *reading)).collect();
        all.sort_by(|a, b| a.upstream.cmp(&b.upstream));
        all
    }

    /// All meters and their readings. A reading may notify observers of a storm, which may use the registry: no lock is
    /// held meanwhile.
    fn read(&self) -> (Vec<(Meter, Reading)>, Vec<ServerMeter>) {
        let known = lock(&self.0.known);
        let meters: Vec<Meter> = known.meters.values().cloned().collect();
        let servers = known.servers.values().cloned().collect();
        drop(known);
        let read = |meter: Meter| (meter.clone(), meter.reading());
        (meters.into_iter().map(read).collect(), servers)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find<M: Clone>(known: &mut HashMap<String, M>, name: String, make: impl Fn(String) -> M) -> M {
    if let Some(known) = known.get(&name) {
        return known.clone();
    }
    let others = usize::from(known.contains_key(OTHER));
    let full = known.len() - others >= Registry::MOST_NAMES;
    let name = if full { OTHER.to_owned() } else { name };
    known.entry(name.clone()).or_insert_with(|| make(name)).clone()
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}
