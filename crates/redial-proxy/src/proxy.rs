use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::{self, JoinHandle};

use redial_policy::file::{self, Address, File, KeyStore};
use tokio::runtime::Builder;
use tokio::sync::{Notify, Semaphore};

use crate::access::Access;
use crate::admin::{self, Admin, AdminPages};
use crate::control::Control;
use crate::error::StartError;
use crate::listen::Bound;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::shared::{Drain, Quota, Reloads, Shared};
use crate::snapshot::{self, Snapshot};
use crate::store;
use crate::swap::Swap;
use crate::tend;
use crate::threads::Threads;

/// A proxy that runs, until it is [drained](Self::drain) or dropped.
pub struct Proxy {
    control: Arc<Control>,
    threads: Threads,
    /// The thread of everything that is not a request.
    tending: Option<JoinHandle<()>>,
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
        let admin = file.proxy.admin.as_ref().map(Admin::bind).transpose()?;
        let address = admin.as_ref().map(|admin| admin.address.clone());
        let access = Access::start(file.proxy.log, options.log.clone()).map_err(no_thread)?;
        let shared = Arc::new(Shared {
            access,
            snapshot: Swap::new(snapshot),
            quota,
            drain: Drain::default(),
            room: Arc::new(Semaphore::new(file.proxy.connections.min(Semaphore::MAX_PERMITS))),
            open: (0..file.proxy.threads).map(|_| AtomicUsize::new(0)).collect(),
            ended: Notify::new(),
            reloads: Reloads::default(),
        });
        let started = Threads::start(&shared, file.proxy.drain).and_then(|(threads, changes)| {
            let metrics = Metrics::new(options.metrics.clone());
            let control = Arc::new(Control::new(Arc::clone(&shared), changes, options));
            let pages = AdminPages::new(Arc::clone(&control), metrics);
            let tending = start_tending(Arc::clone(&control), admin, pages.clone())?;
            Ok(Self { control, threads, tending: Some(tending), admin: address, pages })
        });
        let proxy = started.map_err(|error| {
            // Threads that did start end again.
            shared.drain.start();
            no_thread(error)
        })?;
        proxy.control.open(bound);
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
            if let Some(file::Idempotency { store, .. }) = &mut upstream.idempotency
                && let KeyStore::Sqlite(path) = store
            {
                store::check_sqlite(path, &field)?;
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
        self.control.reload(file)
    }

    /// Reads the [source](crate::Source) again, as if it had changed, and logs the result.
    pub fn reread(&self) {
        self.control.reread();
    }

    /// Where each upstream is reached, by its name.
    pub fn addresses(&self) -> Vec<(String, Address)> {
        self.control.addresses()
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
        self.control.shared.drain.start();
        self.threads.join();
        self.control.ended.notify_one();
        if let Some(tending) = self.tending.take() {
            // A thread that panicked has ended as well.
            drop(tending.join());
        }
        if let Some(access) = &self.control.shared.access {
            access.flush();
        }
    }
}

/// Drains without waiting for the end.
impl Drop for Proxy {
    fn drop(&mut self) {
        self.control.shared.drain.start();
        self.control.ended.notify_one();
    }
}

fn start_tending(
    control: Arc<Control>,
    admin: Option<Admin>,
    pages: AdminPages,
) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("tend".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::spawn(tend::resolve(Arc::clone(&control)));
            tokio::spawn(tend::watch(Arc::clone(&control)));
            tokio::spawn(tend::check(Arc::clone(&control)));
            if let Some(admin) = admin {
                tokio::spawn(admin::serve(admin, pages));
            }
            control.ended.notified().await;
        });
        // A lookup that takes long need not be waited for.
        runtime.shutdown_background();
    })
}

fn no_thread(error: io::Error) -> StartError {
    let help = "allow the process more threads and open files";
    StartError::new("proxy.threads".to_owned(), error, help)
}
