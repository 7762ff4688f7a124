//! Changes of a proxy that runs: another file, other addresses of a name.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redial_policy::file::{Address, File, Upstream};
use tokio::sync::Notify;

use super::options::{Options, Source};
use super::threads::ListenerChanges;
use crate::caller::listener::{Bound, Listener};
use crate::caller::passed_sockets::Sockets;
use crate::config::snapshot::Snapshot;
use crate::error::StartError;
use crate::shared::Shared;
use crate::upstream::resolve::Resolved;

pub(crate) struct Reloader {
    pub(crate) shared: Arc<Shared>,
    /// Notified when there is another snapshot.
    pub(crate) changed: Notify,
    /// Notified when the last request has ended.
    pub(crate) ended: Notify,
    pub(crate) source: Option<Source>,
    sockets: Sockets,
    changes: ListenerChanges,
    /// Locked during a change, so that there is one at a time.
    listeners: Mutex<Vec<Arc<Listener>>>,
}

impl Reloader {
    pub(crate) fn new(shared: Arc<Shared>, changes: ListenerChanges, options: Options) -> Self {
        let Options { sockets, source, .. } = options;
        let (changed, ended, listeners) = (Notify::new(), Notify::new(), Mutex::default());
        Self { shared, changed, ended, source, sockets, changes, listeners }
    }

    pub(crate) fn reload(&self, file: &File) -> Result<(), StartError> {
        self.change(&mut self.listeners(), file)
    }

    /// Uses another file, and counts whether that was possible.
    fn change(&self, listeners: &mut Vec<Arc<Listener>>, file: &File) -> Result<(), StartError> {
        let before = self.addresses_of(listeners);
        self.try_change(listeners, file).inspect_err(|_| self.count_refused())?;
        self.shared.reloads.applied.fetch_add(1, Ordering::Relaxed);
        self.report_moves(&before, &self.addresses_of(listeners));
        Ok(())
    }

    fn count_refused(&self) {
        self.shared.reloads.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Programs started with the old address keep using it.
    fn report_moves(&self, before: &[(String, Address)], after: &[(String, Address)]) {
        for (name, old) in before {
            if let Some((_, new)) = after.iter().find(|(known, new)| known == name && new != old) {
                let message = format!(
                    "{name} is now reached at {new}, no longer at {old}: \
                     restart programs that were told the old address"
                );
                self.shared.event("moved", message);
            }
        }
    }

    fn try_change(
        &self,
        listeners: &mut Vec<Arc<Listener>>,
        file: &File,
    ) -> Result<(), StartError> {
        let old = self.shared.snapshot.load();
        // What concerns the process stays as it is.
        let file = &File { proxy: old.file.proxy.clone(), ..file.clone() };
        let snapshot = Snapshot::new(file, &self.shared.quota, &old)?;
        let is_new = |it: &&Upstream| listeners.iter().all(|known| !known.fits(it));
        let new = file.upstreams.iter().filter(is_new).map(|it| Bound::new(it, &self.sockets));
        let new: Vec<Bound> = new.collect::<Result<_, _>>()?;
        self.replace(snapshot);
        listeners.retain(|known| {
            let is_used = file.upstreams.iter().any(|upstream| known.fits(upstream));
            if !is_used {
                self.changes.close(known);
            }
            is_used
        });
        self.add(listeners, new);
        Ok(())
    }

    /// Reads the file again, and logs what follows.
    pub(crate) fn reread(&self) {
        let Some(source) = &self.source else { return };
        // Before the file is read: of two that reread it, the one that changes the proxy last has the newer content.
        let mut listeners = self.listeners();
        let old = self.shared.snapshot.load();
        let path = source.path.display();
        let file = match (source.read)() {
            Ok(file) => file,
            Err(error) => {
                self.count_refused();
                return self.refused(&error);
            }
        };
        match self.change(&mut listeners, &file) {
            Ok(()) => self.shared.event("reloaded", format!("{path}: reloaded")),
            Err(error) => return self.refused(&format!("{path}: {error}")),
        }
        if file.proxy != old.file.proxy {
            let message = format!("{path}: changes of [proxy] take effect after a restart");
            self.shared.event("restart", message);
        }
    }

    fn refused(&self, error: &str) {
        self.shared.event("refused", format!("the new file is not used: {error}"));
    }

    /// Uses the addresses that names have now, unless the file has changed meanwhile.
    pub(crate) fn resolve(&self) {
        let generation = self.shared.snapshot.generation();
        let old = self.shared.snapshot.load();
        let resolved = Resolved::look_up(&old.file, &old.resolved);
        if resolved == old.resolved {
            return;
        }
        let _listeners = self.listeners();
        if self.shared.snapshot.generation() != generation {
            return;
        }
        match Snapshot::with(&old.file, resolved, &self.shared.quota, &old) {
            Ok(snapshot) => self.replace(snapshot),
            Err(error) => {
                self.shared.event("refused", format!("new addresses are not used: {error}"));
            }
        }
    }

    fn replace(&self, snapshot: Snapshot) {
        let before = self.shared.snapshot.load();
        self.shared.snapshot.replace(snapshot);
        before.follow(&self.shared.snapshot.load());
        self.changed.notify_one();
    }

    pub(crate) fn open(&self, bound: Vec<Bound>) {
        self.add(&mut self.listeners(), bound);
    }

    fn add(&self, listeners: &mut Vec<Arc<Listener>>, bound: Vec<Bound>) {
        for bound in bound {
            listeners.push(Arc::clone(&bound.listener));
            self.changes.open(bound);
        }
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Arc<Listener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn addresses(&self) -> Vec<(String, Address)> {
        self.addresses_of(&self.listeners())
    }

    fn addresses_of(&self, listeners: &[Arc<Listener>]) -> Vec<(String, Address)> {
        let snapshot = self.shared.snapshot.load();
        let named =
            |it: &Arc<Listener>| Some((it.upstream(&snapshot)?.0.name.clone(), it.address.clone()));
        listeners.iter().filter_map(named).collect()
    }
}
