use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;

use redial_policy::file::{Address, File};
use tokio::sync::{Notify, Semaphore};

use crate::error::StartError;
use crate::listen::Bound;
use crate::shared::{Drain, Shared};
use crate::swap::Swap;
use crate::threads;
use crate::tls;
use crate::world::World;

/// A proxy that runs. It ends after [`drain`](Self::drain).
pub struct Proxy {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    addresses: Vec<(String, Address)>,
}

impl Proxy {
    /// Starts what a file describes. When this returns, every listener accepts connections.
    ///
    /// # Errors
    ///
    /// A listener cannot be bound, a certificate cannot be used, or a thread cannot be started. Then nothing is left
    /// running.
    pub fn start(file: &File) -> Result<Self, StartError> {
        let world = World::new(file, None)?;
        let mut bound = Vec::new();
        for upstream in &file.upstreams {
            let field = format!("upstream.{}.listen_tls", upstream.name);
            let tls =
                upstream.listen_tls.as_ref().map(|tls| tls::acceptor(tls, &field)).transpose()?;
            bound.push(Bound::new(&upstream.name, upstream.listen.as_ref(), tls)?);
        }
        let address = |bound: &Bound| (bound.upstream.to_string(), bound.address.clone());
        let addresses = bound.iter().map(address).collect();
        let shared = Arc::new(Shared {
            world: Swap::new(world),
            drain: Drain::default(),
            room: Arc::new(Semaphore::new(file.proxy.connections)),
            open: (0..file.proxy.threads).map(|_| AtomicUsize::new(0)).collect(),
            ended: Notify::new(),
        });
        let threads = threads::start(&shared, bound, file.proxy.drain).map_err(|error| {
            let field = "proxy.threads".to_owned();
            StartError::new(field, error, "allow the process more threads and open files")
        })?;
        Ok(Self { shared, threads, addresses })
    }

    /// Where each upstream is reached, by its name.
    pub fn addresses(&self) -> &[(String, Address)] {
        &self.addresses
    }

    /// Stops accepting connections, lets requests in flight finish within the file's `drain`, and ends.
    pub fn drain(self) {
        self.shared.drain.start();
        for thread in self.threads {
            // A thread that panicked has ended as well.
            drop(thread.join());
        }
    }
}
