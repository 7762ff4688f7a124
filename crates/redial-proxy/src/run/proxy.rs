use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;

use redial_policy::file::{self, Address, File, KeyStore};
use tokio::sync::{Notify, Semaphore};

use super::background;
use super::options::Options;
use super::reload::Reloader;
use super::threads::Threads;
use crate::access_log::Access;
use crate::admin::{self, AdminPages};
use crate::caller::listener::Bound;
use crate::config::snapshot::{self, Quota, Snapshot};
use crate::config::versioned::Versioned;
use crate::error::StartError;
use crate::layers::key_store;
use crate::shared::{Drain, Reloads, Shared};

/// A proxy that runs, until it is [drained](Self::drain) or dropped.
pub struct Proxy {
    reloader: Arc<Reloader>,
    threads: Threads,
    /// The thread of everything that is not a request.
    background: Option<JoinHandle<()>>,
    admin: Option<Address>,
    pages: AdminPages,
}

impl Proxy {
    /// Starts what a file describes. When this returns, every listener accepts connections.
    ///
    /// # Errors
    ///
    /// A listener cannot be bound, a certificate or a store cannot be used, or a thread cannot be started. Then nothing is
    /// left running.
    pub fn start(file: &File) -> Result<Self, StartError> {
        Self::start_with(file, Options::default())
    }

    /// The same, with what the program provides.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start), and a socket that was passed to this process and that the file does not use.
    pub fn start_with(file: &File, options: Options) -> Result<Self, StartError> {
        let quota = Quota::new(&file.proxy);
        let snapshot = Snapshot::new(file, &quota, &Snapshot::default())?;
        options.sockets.check(&file.upstreams)?;
        let bind = |upstream| Bound::new(upstream, &options.sockets);
        let bound: Vec<Bound> = file.upstreams.iter().map(bind).collect::<Result<_, _>>()?;
        let admin = file.proxy.admin.as_ref().map(admin::bind).transpose()?;
        let address = admin.as_ref().map(|admin| admin.address().clone());
        let access = Access::start(file.proxy.log, options.log.clone()).map_err(no_thread)?;
        let shared = Arc::new(Shared {
            log: options.log.clone(),
            access,
            snapshot: Versioned::new(snapshot),
            quota,
            drain: Drain::default(),
            room: Arc::new(Semaphore::new(file.proxy.connections.min(Semaphore::MAX_PERMITS))),
            open: (0..file.proxy.threads).map(|_| AtomicUsize::new(0)).collect(),
            ended: Notify::new(),
            reloads: Reloads::default(),
        });
        let started = Threads::start(&shared, file.proxy.drain).and_then(|(threads, changes)| {
            let pages = AdminPages::new(Arc::clone(&shared), options.metrics.clone());
            let reloader = Arc::new(Reloader::new(Arc::clone(&shared), changes, options));
            let background = background::start(Arc::clone(&reloader), admin, pages.clone())?;
            Ok(Self { reloader, threads, background: Some(background), admin: address, pages })
        });
        let proxy = started.map_err(|error| {
            // Threads that did start end again.
            shared.drain.start();
            no_thread(error)
        })?;
        proxy.reloader.open(bound);
        Ok(proxy)
    }

    /// Checks a file as [`start`](Self::start) does, but binds and creates nothing, and connects to no fleet.
    ///
    /// # Errors
    ///
    /// A certificate or a store cannot be used.
    pub fn check(file: &File) -> Result<(), StartError> {
        let mut file = file.clone();
        for upstream in &mut file.upstreams {
            let field = snapshot::store_field(upstream);
            if let Some(file::IdempotencyRules { store, .. }) = &mut upstream.idempotency
                && let KeyStore::Sqlite(path) = store
            {
                key_store::check_sqlite(path, &field)?;
                *store = KeyStore::Memory;
            }
        }
        Snapshot::check(&file, &Quota::new(&file.proxy))
    }

    /// Replaces the file. Requests in flight keep their policy, and their retries go to the new endpoints. Policies that did
    /// not change keep their budgets, and listeners that did not change stay open. What concerns the whole process, the table `[proxy]`, does not change.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start). Then nothing has changed.
    pub fn reload(&self, file: &File) -> Result<(), StartError> {
        self.reloader.reload(file)
    }

    /// Reads the [source](crate::Source) again, as if it had changed, and logs the result.
    pub fn reread(&self) {
        self.reloader.reread();
    }

    /// Where each upstream is reached, by its name.
    pub fn addresses(&self) -> Vec<(String, Address)> {
        self.reloader.addresses()
    }

    /// Where the admin interface is.
    pub fn admin(&self) -> Option<&Address> {
        self.admin.as_ref()
    }

    /// The pages of the admin interface, for a program that serves them itself.
    pub fn admin_pages(&self) -> AdminPages {
        self.pages.clone()
    }

    /// Fails readiness, stops accepting connections, lets requests in flight finish within the file's `drain`, and ends.
    pub fn drain(mut self) {
        self.reloader.shared.drain.start();
        self.threads.join();
        self.reloader.ended.notify_one();
        if let Some(background) = self.background.take() {
            // A thread that panicked has ended as well.
            drop(background.join());
        }
        if let Some(access) = &self.reloader.shared.access {
            access.flush();
        }
    }
}

/// Drains without waiting for the end.
impl Drop for Proxy {
    fn drop(&mut self) {
        self.reloader.shared.drain.start();
        self.reloader.ended.notify_one();
    }
}

fn no_thread(error: io::Error) -> StartError {
    let help = "allow the process more threads and open files";
    StartError::new("proxy.threads".to_owned(), error, help)
}
