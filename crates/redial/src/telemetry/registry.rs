use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::Recorder;

use super::meter::Meter;
use super::publish::Publisher;
use super::server::ServerMeter;
use super::storm::Reading;

/// The meters of a process, by name.
///
/// Most programs need no other than the [global](Self::global) one, which [`Meter::new`] and
/// [`publish`](super::publish) mean. It keeps its meters for as long as the process runs: a counter that starts over
/// whenever nobody calls would hide what happened before.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

#[derive(Default)]
struct Inner {
    kept: Mutex<Kept>,
    /// A lock of its own: a recorder may ask for a meter.
    told: Mutex<Told>,
}

#[derive(Default)]
struct Kept {
    meters: HashMap<String, Meter>,
    servers: HashMap<String, ServerMeter>,
}

#[derive(Default)]
struct Told {
    publisher: Publisher,
    /// Where the recorder is that `publisher` tells; one that was installed later is another one.
    recorder: usize,
}

/// What is counted under no name of its own.
const OTHER: &str = "other";

impl Registry {
    /// So many names of upstreams, and so many of servers, are told apart; later ones are `other`.
    pub const MOST_NAMES: usize = 256;

    /// One without meters.
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// That of the process.
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
        find(&mut lock(&self.0.kept).meters, upstream.into(), make)
    }

    /// See [`ServerMeter::new`].
    pub fn server(&self, server: impl Into<String>) -> ServerMeter {
        find(&mut lock(&self.0.kept).servers, server.into(), ServerMeter::made)
    }

    /// Hands the numbers of all meters to the recorder that is installed for the process. One that is installed after
    /// this was first called is told everything then.
    pub fn publish(&self) {
        let (meters, servers) = self.read();
        let mut told = lock(&self.0.told);
        metrics::with_recorder(|recorder| {
            let place = std::ptr::from_ref(recorder).cast::<()>().addr();
            if std::mem::replace(&mut told.recorder, place) != place {
                told.publisher = Publisher::default();
            }
            told.publisher.publish(recorder, &meters, &servers);
        });
    }

    /// Hands the numbers of all meters to `recorder`. `publisher` knows what it was told: it belongs to this recorder
    /// and to this registry.
    pub fn publish_to(&self, recorder: &dyn Recorder, publisher: &mut Publisher) {
        let (meters, servers) = self.read();
        publisher.publish(recorder, &meters, &servers);
    }

    /// All meters, and what each of them reads. That may tell somebody of a storm, who may use the registry: no lock is
    /// held meanwhile.
    fn read(&self) -> (Vec<(Meter, Reading)>, Vec<ServerMeter>) {
        let kept = lock(&self.0.kept);
        let meters: Vec<Meter> = kept.meters.values().cloned().collect();
        let servers = kept.servers.values().cloned().collect();
        drop(kept);
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
