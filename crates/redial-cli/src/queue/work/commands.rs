//! A command may outlive its attempt: after a timeout it gets a grace period to end, with all of its children. Until then
//! the same job must not start again, and the worker must not exit.

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

use crate::process::{Group, Guard, MARK};

/// How often a process group is polled: no signal reports that it has ended.
const POLL: Duration = Duration::from_millis(5);

/// How long a killed group may take to disappear. A zombie that its new parent never waits for would keep it for ever.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// The commands that are running or being ended.
pub(super) struct Commands {
    grace: Duration,
    groups: Mutex<HashMap<JobId, Group>>,
    changed: Notify,
    /// Kills them if this process is killed.
    guard: Option<Mutex<Guard>>,
}

/// A command that is about to be started.
pub(super) struct Starting {
    number: u64,
    mark: String,
    commands: Arc<Commands>,
}

impl Commands {
    pub(super) fn new(grace: Duration, guard: Option<Guard>) -> Self {
        let guard = guard.map(Mutex::new);
        Self { grace, groups: Mutex::default(), changed: Notify::new(), guard }
    }

    /// Announces a command to the guard.
    pub(super) fn starting(self: &Arc<Self>) -> Starting {
        let (number, mark) = self.guard(Guard::starting).unwrap_or_default();
        Starting { number, mark, commands: Arc::clone(self) }
    }

    fn guard<T>(&self, send: impl FnOnce(&mut Guard) -> T) -> Option<T> {
        let guard = self.guard.as_ref()?;
        Some(send(&mut guard.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Waits until no process of this job's last attempt is left.
    pub(super) async fn of(&self, id: JobId) {
        self.until(|groups| !groups.contains_key(&id)).await;
    }

    /// Waits until no process is left.
    pub(super) async fn all(&self) {
        self.until(HashMap::is_empty).await;
    }

    async fn until(&self, condition: impl Fn(&HashMap<JobId, Group>) -> bool) {
        loop {
            let changed = self.changed.notified();
            if condition(&self.groups.lock().unwrap_or_else(PoisonError::into_inner)) {
                return;
            }
            changed.await;
        }
    }

    /// Kills all of them.
    pub(super) fn kill(&self) {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.values().for_each(|group| group.signal(Signal::SIGKILL));
    }

    fn over(&self, id: JobId, number: u64) {
        self.guard(|guard| guard.over(number));
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.changed.notify_waiters();
    }

    /// Terminates a command, and kills it after the grace period.
    async fn end(&self, child: &mut Child, group: Group) {
        group.terminate();
        if timeout(self.grace, gone(child, group)).await.is_err() {
            group.signal(Signal::SIGKILL);
            let _ = timeout(KILL_TIMEOUT, gone(child, group)).await;
        }
    }
}

impl Starting {
    /// The variable that the environment of the command must have.
    pub(super) fn variable(&self) -> (&'static str, &str) {
        (MARK, &self.mark)
    }

    /// Registers the command after it was started.
    pub(super) fn watch(mut self, id: JobId, child: Child, group: Group) -> Running {
        let (number, commands) = (std::mem::take(&mut self.number), Arc::clone(&self.commands));
        commands.guard(|guard| guard.started(number, group.target()));
        commands.groups.lock().unwrap_or_else(PoisonError::into_inner).insert(id, group);
        Running { id, number, group, child: Some(child), commands }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if self.number != 0 {
            self.commands.guard(|guard| guard.over(self.number));
        }
    }
}

/// Waits until the command and everything in its group has ended.
async fn gone(child: &mut Child, group: Group) {
    let _ = child.wait().await;
    while group.remains() {
        sleep(POLL).await;
    }
}

/// A running command. It is ended when this is dropped, as after a timeout.
pub(super) struct Running {
    id: JobId,
    /// Its number for the guard.
    number: u64,
    group: Group,
    child: Option<Child>,
    commands: Arc<Commands>,
}

impl Running {
    /// Waits for the command, but not for its children.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match &mut self.child {
            Some(child) => child.wait().await,
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The command has succeeded. Processes that it has left running may continue.
    pub(super) fn leave(mut self) {
        self.child = None;
        self.commands.over(self.id, self.number);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let (id, number, group) = (self.id, self.number, self.group);
        let commands = Arc::clone(&self.commands);
        match Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move {
                    commands.end(&mut child, group).await;
                    commands.over(id, number);
                });
            }
            // Without a runtime nothing can wait for it.
            Err(_) => group.signal(Signal::SIGKILL),
        }
    }
}
