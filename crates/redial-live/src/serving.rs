use std::net::SocketAddr;
use std::sync::Arc;

use redial_core::Time;

use crate::callers::arrivals;
use crate::cpu::CpuTime;
use crate::lag::Lag;
use crate::live::LiveRun;
use crate::record::Record;
use crate::server::Server;
use crate::setting::{Error, LiveScenario};
use crate::shared::Shared;

/// Starts only the server, for callers in another process.
///
/// They request the path `/N` for every attempt of their call number N. Their calls have to be recorded here.
///
/// # Errors
///
/// The system refused a thread or a port.
pub fn serve(setting: LiveScenario) -> Result<Serving, Error> {
    let shared = Arc::new(Shared::new(setting));
    let server = Server::start(&shared)?;
    Ok(Serving { shared, server, busy: CpuTime::start() })
}

/// A server that waits for callers. It stops when dropped.
#[derive(Debug)]
pub struct Serving {
    shared: Arc<Shared>,
    server: Server,
    busy: CpuTime,
}

impl Serving {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Time since the start.
    pub fn now(&self) -> Time {
        self.shared.now()
    }

    /// When the calls of an open loop begin, each with its instance, as in a run with callers in this process.
    pub fn begins(&self) -> Vec<(Time, u32)> {
        arrivals(&self.shared).collect()
    }

    /// Attempts are recorded by the server; the beginning and the end of calls belong here.
    pub fn record(&self) -> &Record {
        &self.shared.record
    }

    /// The wake-ups of the callers belong here.
    pub fn lag(&self) -> &Lag {
        &self.shared.lag
    }

    /// The results.
    pub fn finish(self) -> LiveRun {
        LiveRun::new(&self.shared, self.busy)
    }
}
