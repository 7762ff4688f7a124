use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::{self, JoinHandle};

use redial_core::Nanos;
use redial_sim::measure::Run;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::busy::Busy;
use crate::caller::Caller;
use crate::callers;
use crate::figures::{self, Refusal};
use crate::lag::Lag;
use crate::link::Link;
use crate::record::{Log, Record};
use crate::scene::Scene;
use crate::server::Server;
use crate::setting::{Error, Setting};

/// Runs to the end. `caller` makes the way of retrying of each instance.
pub fn run<C: Caller>(setting: Setting, caller: impl FnMut(u32) -> C) -> Result<Live, Error> {
    Ok(start(setting, caller)?.finish())
}

/// Starts a run, to be looked at while it goes on.
pub fn start<C: Caller>(setting: Setting, caller: impl FnMut(u32) -> C) -> Result<Running, Error> {
    let instances: Vec<_> =
        (0..setting.scenario().clients.instances).map(caller).map(Arc::new).collect();
    let scene = Arc::new(Scene::new(setting));
    let server = Server::start(&scene)?;
    let link = Arc::new(Link::new(server.address(), Arc::clone(&scene)));
    let (stop, stopped) = oneshot::channel();
    let busy = Busy::start();
    let callers = spawn(Arc::clone(&scene), link, instances, stopped)?;
    Ok(Running { scene, stop: Some(stop), callers: Some(callers), busy, _server: server })
}

/// A run that goes on. It is cut off when dropped.
#[derive(Debug)]
pub struct Running {
    scene: Arc<Scene>,
    stop: Option<oneshot::Sender<()>>,
    callers: Option<JoinHandle<()>>,
    busy: Busy,
    /// Goes last: whoever calls must find it.
    _server: Server,
}

/// What happened.
#[derive(Debug)]
pub struct Live {
    scene: Arc<Scene>,
    log: Log,
    busy: Option<f64>,
}

impl Running {
    /// Time since the start.
    pub fn now(&self) -> Nanos {
        self.scene.now()
    }

    /// What is run.
    pub fn setting(&self) -> &Setting {
        &self.scene.setting
    }

    /// What has happened so far.
    pub fn record(&self) -> &Record {
        &self.scene.record
    }

    /// Whether all callers are done.
    pub fn is_over(&self) -> bool {
        self.callers.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Cuts it off; calls that have not ended never will.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Live {
        if let Some(callers) = self.callers.take() {
            // A caller that panics ends alone; this thread has nothing that could.
            drop(callers.join());
        }
        let busy = self.busy.share(self.now());
        Live { scene: Arc::clone(&self.scene), log: self.scene.record.take(), busy }
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

impl Live {
    /// What was run.
    pub fn setting(&self) -> &Setting {
        &self.scene.setting
    }

    /// Everything that was recorded.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// How late the generator was.
    pub fn lag(&self) -> &Lag {
        &self.scene.lag
    }

    /// How much of the machine the process used, from 0 to 1, if the system says.
    pub fn busy(&self) -> Option<f64> {
        self.busy
    }

    /// How many calls were cut off by the end.
    pub fn unfinished(&self) -> usize {
        self.log.begun.len() - self.log.ended.len()
    }

    /// What it comes to, unless the generator was the limit.
    ///
    /// # Errors
    ///
    /// It was.
    pub fn figures(&self) -> Result<Run, Refusal> {
        self.lag().judge().map_err(Refusal::Late)?;
        if self.log.broken > 0 {
            return Err(Refusal::Broken(self.log.broken));
        }
        Ok(figures::of(self.setting().scenario(), &self.log))
    }
}

/// The callers' thread.
fn spawn<C: Caller>(
    scene: Arc<Scene>,
    link: Arc<Link>,
    instances: Vec<Arc<C>>,
    stopped: oneshot::Receiver<()>,
) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let work = move || {
        runtime.block_on(async move {
            let over = scene.scenario().duration + scene.setting.drain;
            let calls = callers::run(Arc::clone(&scene), link, instances);
            let pulse = scene.pulse();
            // An error of `stopped` is a handle that is gone, which says the same.
            first_of([
                &mut pin!(calls),
                &mut pin!(pulse),
                &mut pin!(scene.clock.sleep_until(over)),
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
