//! Traffic for a person who watches: it has no end, its backend fails when the person wants, and nothing is recorded, so that
//! memory does not grow.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use redial_core::{Deadline, Observer, Span, TimeLimit};
use tokio::sync::oneshot;

use crate::caller::Caller;
use crate::fault::Fault;
use crate::live::spawn;
use crate::pool::Pool;
use crate::server::Server;
use crate::setting::{Error, LiveScenario};
use crate::shared::Shared;

/// A server that runs until it is dropped. Faults of its scenario are those of any run; more can be switched on.
#[derive(Debug)]
pub struct EndlessServer {
    shared: Arc<Shared>,
    server: Server,
}

/// Callers in a closed loop, which call until this is dropped.
#[derive(Debug)]
pub struct EndlessCallers {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EndlessServer {
    /// Starts the server of a scenario.
    ///
    /// # Errors
    ///
    /// The system refused a thread or a port.
    pub fn start(setting: &LiveScenario) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(setting.clone().endless()));
        let server = Server::start(&shared)?;
        Ok(Self { shared, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Switches a fault on for this long, or until another one is switched on. The one before it ends.
    pub fn fail(&self, fault: Fault, lasts: Option<Duration>) {
        let until = self.shared.now() + TimeLimit::from(lasts);
        self.shared.switch.set(Some(fault), until);
    }

    /// Ends the fault.
    pub fn recover(&self) {
        self.shared.switch.set(None, Deadline::NONE);
    }

    /// The fault that is switched on, and how long it lasts yet, if it has an end.
    pub fn fault(&self) -> Option<(Fault, Option<Span>)> {
        let now = self.shared.now();
        let (fault, until) = self.shared.switch.at(now)?;
        Some((fault, until.left(now).span()))
    }
}

impl EndlessCallers {
    /// Starts the callers of a scenario. They call this address, which may be that of a proxy. `caller` makes the caller of
    /// each instance, and an observer gets the events of their calls.
    ///
    /// # Errors
    ///
    /// The system refused a thread, or the scenario has no closed loop.
    pub fn start<C: Caller>(
        setting: &LiveScenario,
        to: SocketAddr,
        observer: Option<Arc<dyn Observer>>,
        caller: impl FnMut(u32) -> C,
    ) -> Result<Self, Error> {
        let arrivals = &setting.scenario().clients.arrivals;
        if arrivals.callers().is_none() {
            return Err(Error::Unsupported { path: "clients.arrivals", can: "closed" });
        }
        let instances = setting.scenario().clients.instances;
        let instances: Vec<_> = (0..instances).map(caller).map(Arc::new).collect();
        let shared = Arc::new(Shared::new(setting.clone().endless()));
        let pool = Arc::new(Pool::new(to, Arc::clone(&shared)).observed(observer));
        let (stop, stopped) = oneshot::channel();
        let thread = spawn(shared, pool, instances, stopped)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for EndlessCallers {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread must not become one of the drop.
            drop(thread.join());
        }
    }
}
