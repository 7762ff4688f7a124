//! What runs behind the page: the sidecar, the workers of the queue, and the demo.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redial::telemetry::{self, Meter, Registry};
use redial_cli::diagnose::QUEUE_METER;
use redial_core::Preset;
use redial_policy::file::{AccessLog, Address, File};
use redial_proxy::{Options, Proxy, Source, prometheus_builder};
use redial_queue::delivery::{self, Deliverer};
use redial_queue::durable::{DurableQueue, JobId, Store, Worker};
use redial_queue::telemetry::QueuePublisher;
use redial_web::{App, Demo, Live};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::sleep;

use super::data::Data;
use super::lines::Lines;
use crate::failed::Failed;
use crate::log::Form;
use crate::process::{StopSignals, open_files};
use crate::proxy::{Config, Log};

/// The queue that is worked on, besides that of the demo.
const QUEUE: &str = "default";
const DEMO_QUEUE: &str = "demo";
/// Deliveries of a queue at once.
const WORKERS: usize = 32;
/// The window of a queue's multiplier: a retry may come an hour after its job began.
const WINDOW: Duration = Duration::from_secs(3600);

/// The parts that run.
pub(super) struct Up {
    app: App,
    proxy: Option<Proxy>,
    tasks: JoinSet<()>,
    workers: Vec<JoinHandle<()>>,
    demo_queue: Option<DurableQueue>,
    /// Jobs of the demo's queue that a process which was killed has left.
    old_jobs: Vec<JobId>,
    /// Set when the workers are to stop.
    stop: watch::Sender<bool>,
}

/// Reads the sidecar's file, if there is one.
pub(super) fn read(path: Option<&Path>) -> Result<Option<(Arc<Config>, File)>, Failed> {
    let Some(path) = path else { return Ok(None) };
    let config = Arc::new(Config::of_file(path));
    let file = config.read().map_err(Failed::Input)?;
    Ok(Some((config, file)))
}

impl Up {
    /// Nothing but the page.
    pub(super) fn page_only() -> Self {
        let (stop, _) = watch::channel(false);
        Self {
            app: App::default(),
            proxy: None,
            tasks: JoinSet::new(),
            workers: Vec::new(),
            demo_queue: None,
            old_jobs: Vec::new(),
            stop,
        }
    }

    /// Starts the sidecar and the queue; without a file, the demo too.
    pub(super) async fn start(
        config: Option<(Arc<Config>, File)>,
        data: &Data,
    ) -> Result<Self, Failed> {
        let store: Arc<dyn Store> = Arc::new(data.store()?);
        let demo = match config {
            Some(_) => None,
            None => Some(Arc::new(Demo::start().map_err(other)?)),
        };
        let (source, file) = match (config, &demo) {
            (Some((config, file)), _) => (source(config), file),
            (None, Some(demo)) => (None, demo.file().map_err(other)?),
            (None, None) => (None, File::default()),
        };
        let proxy = start_proxy(source, file)?;
        let live = Live::new(Registry::global());
        let mut up = Self {
            app: App {
                store: Some(Arc::clone(&store)),
                proxy: Some(proxy.admin_pages()),
                demo: demo.clone(),
                live: Some(live.clone()),
            },
            ..Self::page_only()
        };
        let mut queues = vec![QUEUE];
        queues.extend(demo.as_ref().map(|_| DEMO_QUEUE));
        let mut metered = Vec::new();
        for name in queues {
            let queue = DurableQueue::new(Arc::clone(&store), name)?;
            if name == DEMO_QUEUE {
                up.old_jobs = Demo::clear(&queue).await?;
                up.demo_queue = Some(queue.clone());
            }
            let meter = format!("{QUEUE_METER}{name}");
            up.work(queue.clone(), &meter)?;
            metered.push((meter, queue));
        }
        if let Some(demo) = demo {
            up.start_demo(demo, &proxy)?;
        }
        up.tasks.spawn(async move { live.run(metered).await });
        up.proxy = Some(proxy);
        Ok(up)
    }

    fn start_demo(&mut self, demo: Arc<Demo>, proxy: &Proxy) -> Result<(), Failed> {
        let addresses = proxy.addresses();
        let tcp = |(_, address): &(String, Address)| match address {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        };
        let sidecar = addresses.iter().find_map(tcp);
        let sidecar = sidecar.ok_or_else(|| other("the demo's sidecar has no address"))?;
        demo.call(sidecar).map_err(other)?;
        self.tasks.spawn(Arc::clone(&demo).keep_calm());
        if let Some(queue) = self.demo_queue.clone() {
            let old = std::mem::take(&mut self.old_jobs);
            self.tasks.spawn(async move { demo.enqueue(queue, old).await });
        }
        Ok(())
    }

    /// Starts a worker that sends the deliveries of a queue.
    fn work(&mut self, queue: DurableQueue, meter: &str) -> Result<(), Failed> {
        let policy = delivery::standard();
        let deliverer = Deliverer::new(&policy).map_err(other)?;
        let presets = Preset::ALL.map(|preset| (preset.name().to_owned(), preset.into()));
        let worker = Worker::new(queue.clone())
            .policy(policy)
            .policies(presets)
            .workers(WORKERS)
            .observe(Meter::over(meter, WINDOW));
        let publisher = QueuePublisher::new(queue.clone()).worker(worker.gauge());
        self.tasks.spawn(publisher.run(std::future::pending()));
        let mut stop = self.stop.subscribe();
        self.workers.push(tokio::spawn(async move {
            let stopped = async move {
                // Fails only if the process is ending.
                let _ = stop.wait_for(|stop| *stop).await;
            };
            if let Err(error) = worker.run(deliverer, stopped).await {
                let why = format!("the worker of the queue {} has stopped: {error}", queue.name());
                crate::stderr::write_line(&format!("redial: {}", crate::text::sanitise(&why)));
            }
        }));
        Ok(())
    }

    pub(super) fn app(&self) -> App {
        self.app.clone()
    }

    /// Some lines on what to try.
    pub(super) fn tour(&self, store: &Path, out: &mut impl Write) -> io::Result<()> {
        let lines = match (&self.proxy, &self.app.demo) {
            (None, _) => vec![
                "1. Playground: after an outage of a second, the naive loop does not recover, and Redial does".to_owned(),
                "2. Shorten the outage to 300 ms and turn on the budget: the loop recovers too".to_owned(),
                "3. Exercise: review a retry config, and get it scored".to_owned(),
            ],
            (Some(_), Some(_)) => vec![
                "1. Now: press `blip`. Both backends are down for a second; only the naive loop makes a storm of it".to_owned(),
                "2. Playground: the same with your numbers, up to 100M requests a second".to_owned(),
                "3. Queue: deliveries that failed for good; redrive them".to_owned(),
            ],
            (Some(proxy), None) => {
                let address = |(name, at): (String, Address)| format!("{name} at {at}");
                let all: Vec<String> = proxy.addresses().into_iter().map(address).collect();
                vec![
                    format!("1. Send requests to {}", all.join(", ")),
                    "2. Now: is there a storm, and where? Policies: what is configured".to_owned(),
                    format!("3. Queue: jobs of `redial queue send --store {}`", store.display()),
                    "The admin pages of the sidecar, as /metrics, are at the address above, and not at that of `[proxy] admin`".to_owned(),
                ]
            }
        };
        lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
    }

    /// Shows what happens until a signal comes or the time is over, and drains. Returns the exit code.
    pub(super) async fn run(
        mut self,
        signals: &mut StopSignals,
        lasts: Option<Duration>,
        shows_lines: bool,
    ) -> Result<u8, Failed> {
        let sides = self.app.demo.as_ref().map(|demo| demo.sides());
        let mut lines = Lines::new(sides, shows_lines);
        let mut moments = self.app.live.as_ref().map(Live::subscribe);
        let over = async move {
            match lasts {
                Some(lasts) => sleep(lasts).await,
                None => std::future::pending().await,
            }
        };
        let mut over = std::pin::pin!(over);
        loop {
            let moment = async {
                match &mut moments {
                    Some(moments) => moments.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = signals.next() => break,
                () = &mut over => break,
                moment = moment => match moment {
                    Ok(moment) => lines.show(&moment),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => moments = None,
                },
            }
        }
        if self.proxy.is_some() {
            lines.line("redial: draining: requests and jobs in flight are finished; a second signal ends it at once");
        }
        let code = tokio::select! {
            () = self.drain() => 0,
            code = signals.next() => code,
        };
        lines.flush();
        Ok(code)
    }

    async fn drain(&mut self) {
        if let Some(demo) = self.app.demo.clone() {
            // Callers that keep calling would never be drained.
            let _ = spawn_blocking(move || demo.stop()).await;
        }
        self.stop.send_replace(true);
        if let Some(proxy) = self.proxy.take() {
            // A thread that panicked has ended as well.
            let _ = spawn_blocking(move || proxy.drain()).await;
        }
        for worker in self.workers.drain(..) {
            let _ = worker.await;
        }
        if let Some(queue) = self.demo_queue.take() {
            self.tasks.abort_all();
            // They are removed at the next start otherwise.
            let _ = Demo::clear(&queue).await;
        }
    }
}

fn source(config: Arc<Config>) -> Option<Source> {
    let path = config.path()?.to_owned();
    let read = move || {
        config.read().map(|mut file| {
            file.proxy.admin = None;
            file
        })
    };
    Some(Source { path, read: Box::new(read) })
}

fn start_proxy(source: Option<Source>, mut file: File) -> Result<Proxy, Failed> {
    let place =
        source.as_ref().map_or_else(|| "demo".to_owned(), |it| it.path.display().to_string());
    // The page serves these.
    file.proxy.admin = None;
    let form = if file.proxy.log == AccessLog::Json { Form::Json } else { Form::Text };
    let log = Log::new(form);
    let handle = prometheus_builder().install_recorder().map_err(other)?;
    let metrics = move || {
        telemetry::publish();
        handle.run_upkeep();
        handle.render()
    };
    let options = Options {
        source,
        log: Some(Arc::new(move |line| log.line(line))),
        metrics: Some(Arc::new(metrics)),
        ..Options::default()
    };
    let proxy = Proxy::start_with(&file, options).map_err(|error| Failed::input(place, error))?;
    open_files::raise();
    Ok(proxy)
}

fn other(error: impl std::fmt::Display) -> Failed {
    Failed::Other(error.to_string())
}
