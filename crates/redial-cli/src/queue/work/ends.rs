//! A command whose attempt is over may not be: it gets a while to end, with all that it has started. Until then the same
//! job must not start again, and the worker must not be gone.

use std::collections::HashMap;
use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use redial_queue::durable::JobId;
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::guard::{Guard, MARK};
use crate::run::Group;

/// How often we look whether a group is gone, of which nothing tells us.
const GLANCE: Duration = Duration::from_millis(5);

/// So long what was killed may take to be gone. What has ended and is never waited for, because whoever inherits it does
/// not, looks as if it were there.
const DYING: Duration = Duration::from_secs(1);

/// The commands that run or come to their end.
pub(super) struct Ends {
    grace: Duration,
    groups: Mutex<HashMap<JobId, Group>>,
    changed: Notify,
    /// Ends them if this process is killed.
    guard: Option<Mutex<Guard>>,
}

/// A command that is about to be started.
pub(super) struct Starting {
    number: u64,
    mark: String,
    ends: Arc<Ends>,
}

impl Ends {
    pub(super) fn new(grace: Duration, guard: Option<Guard>) -> Self {
        let guard = guard.map(Mutex::new);
        Self { grace, groups: Mutex::default(), changed: Notify::new(), guard }
    }

    /// A command is about to be started.
    pub(super) fn starting(self: &Arc<Self>) -> Starting {
        let (number, mark) = self.guard(Guard::starting).unwrap_or_default();
        Starting { number, mark, ends: Arc::clone(self) }
    }

    fn guard<T>(&self, tell: impl FnOnce(&mut Guard) -> T) -> Option<T> {
        let guard = self.guard.as_ref()?;
        Some(tell(&mut guard.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Waits until nothing of this job's last attempt here is left.
    pub(super) async fn of(&self, id: JobId) {
        self.until(|groups| !groups.contains_key(&id)).await;
    }

    /// Waits until nothing is left.
    pub(super) async fn all(&self) {
        self.until(HashMap::is_empty).await;
    }

    async fn until(&self, what: impl Fn(&HashMap<JobId, Group>) -> bool) {
        loop {
            let changed = self.changed.notified();
            if what(&self.groups.lock().unwrap_or_else(PoisonError::into_inner)) {
                return;
            }
            changed.await;
        }
    }

    /// Ends all of them, without asking.
    pub(super) fn kill(&self) {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.values().for_each(|group| group.signal(Signal::SIGKILL));
    }

    fn over(&self, id: JobId, number: u64) {
        self.guard(|guard| guard.over(number));
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.changed.notify_waiters();
    }

    /// Asks, waits, and makes it end.
    async fn end(&self, child: &mut Child, group: Group) {
        group.terminate();
        if timeout(self.grace, gone(child, group)).await.is_err() {
            group.signal(Signal::SIGKILL);
            let _ = timeout(DYING, gone(child, group)).await;
        }
    }
}

impl Starting {
    /// What the environment of the command must have.
    pub(super) fn variable(&self) -> (&'static str, &str) {
        (MARK, &self.mark)
    }

    /// The command was started.
    pub(super) fn watch(mut self, id: JobId, child: Child, group: Group) -> Running {
        let (number, ends) = (std::mem::take(&mut self.number), Arc::clone(&self.ends));
        ends.guard(|guard| guard.started(number, group.target()));
        ends.groups.lock().unwrap_or_else(PoisonError::into_inner).insert(id, group);
        Running { id, number, group, child: Some(child), ends }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if self.number != 0 {
            self.ends.guard(|guard| guard.over(self.number));
        }
    }
}

/// Waits until the command and everything in its group has ended.
async fn gone(child: &mut Child, group: Group) {
    let _ = child.wait().await;
    while group.remains() {
        sleep(GLANCE).await;
    }
}

/// A command that runs. Dropped before its end, as when its time is over, it is ended.
pub(super) struct Running {
    id: JobId,
    /// By which the guard knows it.
    number: u64,
    group: Group,
    child: Option<Child>,
    ends: Arc<Ends>,
}

impl Running {
    /// Waits for the command, not for what it has started.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match &mut self.child {
            Some(child) => child.wait().await,
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The command has ended well, and what it has left running is meant to.
    pub(super) fn leave(mut self) {
        self.child = None;
        self.ends.over(self.id, self.number);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let (id, number, group) = (self.id, self.number, self.group);
        let ends = Arc::clone(&self.ends);
        match Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move {
                    ends.end(&mut child, group).await;
                    ends.over(id, number);
                });
            }
            // Nobody would be there to wait.
            Err(_) => group.signal(Signal::SIGKILL),
        }
    }
}
