//! A newcomer has no upstream that fails, and would not break one to see what happens. So there are two on loopback that fail
//! when the page says so, both at the same time: one is called by a naive loop, the other through the real sidecar. Both make
//! the same number of attempts.

mod jobs;
mod routes;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{error, fmt};

use redial::telemetry::Meter;
use redial_core::storm::Level;
use redial_core::{Policy, Span};
use redial_live::{EndlessCallers, EndlessServer, Fault, LiveScenario, Naive, Once};
use redial_policy::file::File;
use redial_sim::Scenario;
use redial_sim::scenario::Set;
use serde::Serialize;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

pub(crate) use routes::routes;

/// The meter of the naive loop.
const NAIVE: &str = "naive";
/// The sidecar's upstream.
const REDIAL: &str = "demo";
/// What the storm detector looks back on: shorter than usual, so that a blip shows within seconds.
const WINDOW: Duration = Duration::from_secs(10);

/// Half of `redial demo`: both ends of all connections are in this process, and those of the sidecar too, and it is to stay
/// below the usual limit of 1,024 open files. The sidecar is a single instance, and a naive loop has no state to share.
const HALF: [(&str, &str); 4] = [
    ("clients.instances", "1"),
    ("clients.arrivals.closed.callers", "150"),
    ("backend.servers", "2"),
    ("backend.queue", "75"),
];

/// Two backends with their callers. They end when this is dropped.
pub struct Demo {
    setting: LiveScenario,
    naive_policy: Policy,
    /// Dropped first, because callers need their server. Those of the naive loop, and those behind the sidecar.
    callers: Mutex<[Option<EndlessCallers>; 2]>,
    naive: EndlessServer,
    redial: EndlessServer,
    /// The name of the fault that was switched on last, until it is repaired.
    kind: Mutex<&'static str>,
}

/// Why there is no demo.
#[derive(Debug)]
pub struct DemoError(String);

/// What the page has to know of the demo.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct DemoDescription {
    /// The names of its two upstreams.
    naive: &'static str,
    redial: &'static str,
    /// Requests a second that a backend can serve.
    capacity: f64,
    faults: Vec<DemoFault>,
}

/// The fault that is switched on.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct ActiveFault {
    kind: &'static str,
    left_ms: Option<u64>,
}

/// A fault that a visitor can switch on.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct DemoFault {
    /// Its name.
    pub kind: &'static str,
    /// What happens.
    #[serde(skip)]
    pub fault: Fault,
    /// How long it lasts, unless told otherwise.
    pub seconds: u64,
    /// What happens, in words.
    pub meaning: &'static str,
}

impl Demo {
    /// The faults that a visitor can switch on.
    pub const FAULTS: [DemoFault; 6] = [
        fault("blip", Fault::Down, 1, "down for a second"),
        fault("brownout", Fault::Failing(0.2), 10, "a fifth of the requests fail"),
        fault("outage", Fault::Down, 10, "down"),
        fault(
            "429s",
            Fault::Limiting(0.3),
            10,
            "a third of the requests are told to come back in a second",
        ),
        fault(
            "lost replies",
            Fault::LosingReplies(0.3),
            10,
            "a third of the replies get lost after the work",
        ),
        fault("slow", Fault::Slow(4.0), 10, "every request takes four times as long"),
    ];

    /// Starts the backends.
    ///
    /// # Errors
    ///
    /// The system refused a thread or a port.
    pub fn start() -> Result<Self, DemoError> {
        let half: Vec<Set> =
            HALF.iter().filter_map(|(path, value)| Set::new(path, value)).collect();
        let scenario = Scenario::read(redial_live::DEMO, &half).map_err(DemoError::new)?;
        // Faults come from the page alone.
        let scenario = Scenario { outage: Vec::new(), ..scenario };
        let naive_policy = scenario.subject(NAIVE).map_err(DemoError::new)?.policy;
        let setting = LiveScenario::of(&scenario).map_err(DemoError::new)?;
        let server = || EndlessServer::start(&setting).map_err(DemoError::new);
        let (naive, redial) = (server()?, server()?);
        let (callers, kind) = (Mutex::default(), Mutex::new(""));
        Ok(Self { setting, naive_policy, callers, naive, redial, kind })
    }

    /// What it runs, with the policy of the naive loop and without faults.
    pub fn scenario(&self) -> &Scenario {
        self.setting.scenario()
    }

    /// The file of the sidecar between the callers and their backend. Its policy is `standard`, with the timeout and the number
    /// of attempts of the naive loop.
    ///
    /// # Errors
    ///
    /// None that is known: the text does not depend on the machine.
    pub fn file(&self) -> Result<File, DemoError> {
        // The sidecar creates the meter with a longer window unless it exists.
        Meter::over(REDIAL, WINDOW);
        let (to, naive) = (self.redial.address(), &self.naive_policy);
        let (attempts, timeout) = (naive.attempts(), naive.attempt_timeout_limit());
        File::read(&format!(
            "[proxy]\n\
             admin = \"none\"\n\
             log = \"none\"\n\
             threads = 1\n\
             \n\
             [upstream.{REDIAL}]\n\
             listen = \"127.0.0.1:0\"\n\
             to = \"http://{to}\"\n\
             policy = \"demo\"\n\
             \n\
             [policy.demo]\n\
             extends = \"standard\"\n\
             attempts = {attempts}\n\
             attempt_timeout = \"{timeout}\"\n\
             connect_timeout = \"{timeout}\"\n"
        ))
        .map_err(DemoError::new)
    }

    /// Starts the callers: those of the naive loop, and those behind the sidecar at this address.
    ///
    /// # Errors
    ///
    /// The system refused a thread.
    pub fn call(&self, sidecar: SocketAddr) -> Result<(), DemoError> {
        let naive = self.naive_callers()?;
        let redial = EndlessCallers::start(&self.setting, sidecar, None, |_| Once);
        *self.callers() = [Some(naive), Some(redial.map_err(DemoError::new)?)];
        Ok(())
    }

    fn naive_callers(&self) -> Result<EndlessCallers, DemoError> {
        let impatient = self.setting.clone().timeout(self.naive_policy.attempt_timeout_limit());
        let meter = Arc::new(Meter::over(NAIVE, WINDOW));
        let to = self.naive.address();
        EndlessCallers::start(&impatient, to, Some(meter), |_| Naive::TYPICAL)
            .map_err(DemoError::new)
    }

    /// Ends the fault, and restarts the callers of the naive loop: a storm that sustains itself does not end with its trigger.
    async fn repair(self: &Arc<Self>) -> Result<(), DemoError> {
        self.fail(None, None);
        let demo = Arc::clone(self);
        // Dropped callers wait for their thread.
        let stopped = spawn_blocking(move || drop(demo.callers()[0].take()));
        stopped.await.map_err(DemoError::new)?;
        // A backlog is enough to make the first new calls late, and the storm would begin again.
        let backend = &self.scenario().backend;
        let emptied = Duration::from_secs_f64(f64::from(backend.queue) / backend.capacity());
        sleep(2 * emptied).await;
        let mut callers = self.callers();
        // After the demo was stopped, there are none to restart.
        if callers[1].is_some() {
            callers[0] = Some(self.naive_callers()?);
        }
        Ok(())
    }

    /// Repairs what no visitor has broken, for as long as it is polled: a machine that stands still for a moment is an outage
    /// too, and a storm without a press of a button explains nothing.
    pub async fn keep_calm(self: Arc<Self>) {
        loop {
            sleep(WINDOW).await;
            let is_calm = Meter::over(NAIVE, WINDOW).reading().level == Level::Calm;
            let is_broken = !self.kind.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
            if !is_calm && !is_broken {
                // Without a thread for the callers, there is none for the next ones either.
                let _ = self.repair().await;
            }
        }
    }

    fn callers(&self) -> MutexGuard<'_, [Option<EndlessCallers>; 2]> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the callers.
    pub fn stop(&self) {
        *self.callers() = [None, None];
    }

    /// The names of the meters of the naive loop and of the sidecar.
    pub fn sides(&self) -> [&'static str; 2] {
        [NAIVE, REDIAL]
    }

    /// Switches a fault on in both backends, or the one that is on off.
    fn fail(&self, fault: Option<&DemoFault>, lasts: Option<Duration>) {
        let mut kind = self.kind.lock().unwrap_or_else(PoisonError::into_inner);
        *kind = fault.map_or("", |fault| fault.kind);
        for server in [&self.naive, &self.redial] {
            match fault {
                Some(DemoFault { fault, seconds, .. }) => {
                    let lasts = lasts.unwrap_or(Duration::from_secs(*seconds));
                    server.fail(*fault, Some(lasts));
                }
                None => server.recover(),
            }
        }
    }

    /// The fault that is switched on, for the page.
    pub(crate) fn fault(&self) -> Option<ActiveFault> {
        let (_, left) = self.redial.fault()?;
        let kind = *self.kind.lock().unwrap_or_else(PoisonError::into_inner);
        Some(ActiveFault { kind, left_ms: left.map(Span::as_millis) })
    }

    /// What the page has to know of it.
    pub(crate) fn describe(&self) -> DemoDescription {
        DemoDescription {
            naive: NAIVE,
            redial: REDIAL,
            capacity: self.scenario().backend.capacity(),
            faults: Self::FAULTS.into(),
        }
    }
}

const fn fault(kind: &'static str, fault: Fault, seconds: u64, meaning: &'static str) -> DemoFault {
    DemoFault { kind, fault, seconds, meaning }
}

impl DemoError {
    fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start the demo: {}", self.0)
    }
}

impl error::Error for DemoError {}
