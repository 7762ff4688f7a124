use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redial::http::ReplayMemory;
use redial_policy::file::{Address, File, Upstream};
use tokio::sync::{Notify, Semaphore};

use crate::error::StartError;
use crate::listen::{Bound, Listener};
use crate::shared::{Drain, Shared};
use crate::swap::Swap;
use crate::threads::Threads;
use crate::world::World;

/// A proxy that runs. It ends after [`drain`](Self::drain).
pub struct Proxy {
    shared: Arc<Shared>,
    threads: Threads,
    /// Locked during a change, so that there is one at a time.
    listeners: Mutex<Vec<Arc<Listener>>>,
}

impl Proxy {
    /// Starts what a file describes. When this returns, every listener accepts connections.
    ///
    /// # Errors
    ///
    /// A listener cannot be bound, a certificate or a store cannot be used, or a thread cannot be started. Then nothing is
    /// left running.
    pub fn start(file: &File) -> Result<Self, StartError> {
        let memory = ReplayMemory::new(usize::try_from(file.proxy.replay).unwrap_or(usize::MAX));
        let world = World::new(file, &memory, &World::default())?;
        let bound: Vec<Bound> = file.upstreams.iter().map(Bound::new).collect::<Result<_, _>>()?;
        let shared = Arc::new(Shared {
            world: Swap::new(world),
            memory,
            drain: Drain::default(),
            room: Arc::new(Semaphore::new(file.proxy.connections.min(Semaphore::MAX_PERMITS))),
            open: (0..file.proxy.threads).map(|_| AtomicUsize::new(0)).collect(),
            ended: Notify::new(),
        });
        let threads = Threads::start(&shared, file.proxy.drain).map_err(|error| {
            let help = "allow the process more threads and open files";
            StartError::new("proxy.threads".to_owned(), error, help)
        })?;
        let proxy = Self { shared, threads, listeners: Mutex::default() };
        proxy.open(bound, &mut proxy.listeners());
        Ok(proxy)
    }

    /// Replaces the file. Requests in flight continue as they began; policies that did not change keep their budgets, and
    /// listeners that did not change stay open. The number of threads and the limits of `[proxy]` do not change.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start). Then nothing has changed.
    pub fn reload(&self, file: &File) -> Result<(), StartError> {
        let mut listeners = self.listeners();
        let world = World::new(file, &self.shared.memory, &self.shared.world.load())?;
        let is_new = |it: &&Upstream| listeners.iter().all(|known| !known.fits(it));
        let new = file.upstreams.iter().filter(is_new).map(Bound::new);
        let new: Vec<Bound> = new.collect::<Result<_, _>>()?;
        self.shared.world.replace(world);
        listeners.retain(|known| {
            let upstream = file.upstreams.iter().find(|upstream| known.fits(upstream));
            match upstream {
                Some(upstream) => known.lead_to(upstream),
                None => self.threads.close(known),
            }
            upstream.is_some()
        });
        self.open(new, &mut listeners);
        Ok(())
    }

    fn open(&self, bound: Vec<Bound>, listeners: &mut Vec<Arc<Listener>>) {
        for bound in bound {
            listeners.push(Arc::clone(&bound.listener));
            self.threads.open(bound);
        }
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Arc<Listener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where each upstream is reached, by its name.
    pub fn addresses(&self) -> Vec<(String, Address)> {
        let named = |it: &Arc<Listener>| (it.upstream().to_string(), it.address.clone());
        self.listeners().iter().map(named).collect()
    }

    /// Stops accepting connections, lets requests in flight finish within the file's `drain`, and ends.
    pub fn drain(self) {
        self.shared.drain.start();
        self.threads.join();
    }
}
