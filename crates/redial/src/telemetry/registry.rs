use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use metrics::Recorder;

use super::meter::Meter;
use super::publish::Publisher;
use super::server::ServerMeter;

/// The meters of a process, by name.
///
/// Most programs need no other than the [global](Self::global) one, which [`Meter::new`] and
/// [`publish`](super::publish) mean. It keeps its meters for as long as the process runs: a counter that starts over
/// whenever nobody calls would hide what happened before.
#[derive(Clone)]
pub struct Registry(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    meters: HashMap<String, Meter>,
    servers: HashMap<String, ServerMeter>,
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
        self.with(|kept| find(&mut kept.meters, upstream.into(), make))
    }

    /// See [`ServerMeter::new`].
    pub fn server(&self, server: impl Into<String>) -> ServerMeter {
        self.with(|kept| find(&mut kept.servers, server.into(), ServerMeter::made))
    }

    /// Hands the numbers of all meters to the recorder that is installed for the process. One that is installed after
    /// this was first called is told everything then.
    pub fn publish(&self) {
        self.with(|Kept { meters, servers, publisher, recorder: known }| {
            metrics::with_recorder(|recorder| {
                let place = std::ptr::from_ref(recorder).cast::<()>().addr();
                if std::mem::replace(known, place) != place {
                    *publisher = Publisher::default();
                }
                publisher.publish(recorder, meters.values(), servers.values());
            });
        });
    }

    /// Hands the numbers of all meters to `recorder`. `publisher` knows what it was told: it belongs to this recorder
    /// and to this registry.
    pub fn publish_to(&self, recorder: &dyn Recorder, publisher: &mut Publisher) {
        self.with(|kept| publisher.publish(recorder, kept.meters.values(), kept.servers.values()));
    }

    fn with<T>(&self, work: impl FnOnce(&mut Kept) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
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
