use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::{self, JoinHandle};

use redial_core::{Deadline, Time};
use redial_sim::measure::Run;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::caller::Caller;
use crate::callers;
use crate::cpu::CpuTime;
use crate::figures::{self, Inconclusive};
use crate::lag::Lag;
use crate::pool::Pool;
use crate::record::{EventLog, Record};
use crate::server::Server;
use crate::setting::{Error, LiveScenario};
use crate::shared::Shared;

/// Runs to the end. `caller` makes the caller of each instance.
pub fn run<C: Caller>(
    setting: LiveScenario,
    caller: impl FnMut(u32) -> C,
) -> Result<LiveRun, Error> {
    Ok(start(setting, caller)?.finish())
}

/// Starts a run that can be observed while it is running.
pub fn start<C: Caller>(
    setting: LiveScenario,
    caller: impl FnMut(u32) -> C,
) -> Result<Running, Error> {
    let instances: Vec<_> =
        (0..setting.scenario().clients.instances).map(caller).map(Arc::new).collect();
    let shared = Arc::new(Shared::new(setting));
    let server = Server::start(&shared)?;
    let pool = Arc::new(Pool::new(server.address(), Arc::clone(&shared)));
    let (stop, stopped) = oneshot::channel();
    let busy = CpuTime::start();
    let callers = spawn(Arc::clone(&shared), pool, instances, stopped)?;
    Ok(Running { shared, stop: Some(stop), callers: Some(callers), busy, _server: server })
}

/// A run in progress. Dropping it aborts it.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    callers: Option<JoinHandle<()>>,
    busy: CpuTime,
    /// Dropped last, because callers need it.
    _server: Server,
}

/// The results of a run.
#[derive(Debug)]
pub struct LiveRun {
    shared: Arc<Shared>,
    log: EventLog,
    busy: Option<f64>,
}

impl Running {
    /// Time since the start.
    pub fn now(&self) -> Time {
        self.shared.now()
    }

    /// The setting.
    pub fn setting(&self) -> &LiveScenario {
        &self.shared.setting
    }

    /// The events so far.
    pub fn record(&self) -> &Record {
        &self.shared.record
    }

    /// Whether all callers are done.
    pub fn is_over(&self) -> bool {
        self.callers.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Aborts the run; unfinished calls are not recorded as ended.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for its end.
    pub fn finish(mut self) -> LiveRun {
        if let Some(callers) = self.callers.take() {
            // A panic of a caller ends only its own task, so this thread does not panic.
            drop(callers.join());
        }
        LiveRun::new(&self.shared, self.busy)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if let Some(callers) = self.callers.take() {
            drop(callers.join());
        }
    }
}

impl LiveRun {
    pub(crate) fn new(shared: &Arc<Shared>, busy: CpuTime) -> Self {
        let busy = busy.share(shared.now().since_zero());
        Self { shared: Arc::clone(shared), log: shared.record.take(), busy }
    }

    /// The setting.
    pub fn setting(&self) -> &LiveScenario {
        &self.shared.setting
    }

    /// All recorded events.
    pub fn log(&self) -> &EventLog {
        &self.log
    }

    /// The lag of the load generator.
    pub fn lag(&self) -> &Lag {
        &self.shared.lag
    }

    /// The share of the machine that the process used, from 0 to 1, if the system reports it.
    pub fn busy(&self) -> Option<f64> {
        self.busy
    }

    /// How many calls were aborted at the end.
    pub fn unfinished(&self) -> usize {
        self.log.begun.len() - self.log.ended.len()
    }

    /// The figures of the run.
    ///
    /// # Errors
    ///
    /// The load generator was the bottleneck.
    pub fn figures(&self) -> Result<Run, Inconclusive> {
        self.lag().judge().map_err(Inconclusive::Late)?;
        if self.log.broken > 0 {
            return Err(Inconclusive::Broken(self.log.broken));
        }
        Ok(self.measured())
    }

    /// The figures of the run, also if the load generator was the bottleneck and they are about the generator too.
    pub fn measured(&self) -> Run {
        figures::of(self.setting().scenario(), &self.log)
    }
}

/// Starts the callers' thread.
pub(crate) fn spawn<C: Caller>(
    shared: Arc<Shared>,
    pool: Arc<Pool>,
    instances: Vec<Arc<C>>,
    stopped: oneshot::Receiver<()>,
) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let work = move || {
        runtime.block_on(async move {
            let over = match shared.setting.is_endless {
                true => Deadline::NONE,
                false => (shared.scenario().end() + shared.setting.drain).into(),
            };
            let calls = callers::run(Arc::clone(&shared), pool, instances);
            let probe = shared.probe();
            // An error means that the handle was dropped, which also stops the run.
            first_of([
                &mut pin!(calls),
                &mut pin!(probe),
                &mut pin!(shared.clock.sleep_until(over)),
                &mut pin!(async { drop(stopped.await) }),
            ])
            .await;
        });
    };
    thread::Builder::new().name("live-callers".into()).spawn(work)
}

async fn first_of<const N: usize>(mut futures: [&mut (dyn Future<Output = ()> + Unpin); N]) {
    poll_fn(|cx| {
        let mut ready = futures.iter_mut().map(|future| pin!(future).poll(cx).is_ready());
        if ready.any(|ready| ready) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
