//! A controller without a cluster: it keeps the files of a folder in line with a spec, when either of them changes.
//!
//! ```text
//! cargo run -p redial-queue --example controller
//! ```
//!
//! The spec is a file of lines `name = text`. A watcher that notices a change adds names to the queue, more often than needed; the
//! pool reconciles one file at a time. At first the folder is missing, so all keys fail, back off and recover; then the spec
//! changes, then a file is overwritten. The program ends when all files match the spec again.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redial_core::Policy;
use redial_core::admit::RateRule;
use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::decide::{Class, Failure};
use redial_core::schedule::Backoff;
use redial_queue::{Priority, Reconciled, Reconciler, WorkEvent, WorkQueue};
use tokio::time::{sleep, timeout};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The paths of the spec and the folder.
#[derive(Clone)]
struct World {
    spec: PathBuf,
    folder: PathBuf,
}

impl World {
    fn wanted(&self) -> io::Result<BTreeMap<String, String>> {
        let text = fs::read_to_string(&self.spec)?;
        let pairs = text.lines().filter_map(|line| line.split_once(" = "));
        Ok(pairs.map(|(name, text)| (name.to_owned(), text.to_owned())).collect())
    }

    fn actual(&self) -> io::Result<BTreeMap<String, String>> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            files.insert(name, fs::read_to_string(entry.path())?);
        }
        Ok(files)
    }

    /// Brings one file in line with the spec. It is idempotent: the second time there is nothing to do.
    fn apply(&self, name: &str) -> io::Result<&'static str> {
        let path = self.folder.join(name);
        match self.wanted()?.get(name) {
            Some(text) if fs::read_to_string(&path).is_ok_and(|known| known == *text) => {
                Ok("unchanged")
            }
            Some(text) => fs::write(path, text).map(|()| "written"),
            None => match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok("removed"),
            },
        }
    }

    /// Adds every name in the spec or the folder. Names that are queued already cost nothing.
    fn notice(&self, queue: &WorkQueue<String>) {
        let names =
            [self.wanted(), self.actual()].into_iter().flatten().flat_map(BTreeMap::into_keys);
        for name in names.collect::<BTreeSet<String>>() {
            queue.try_add(name, Priority::NORMAL, Duration::ZERO);
        }
    }

    async fn converge(&self) -> io::Result<()> {
        let converged = async {
            while self.actual().ok() != self.wanted().ok() {
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(Duration::from_secs(60), converged).await.map_err(io::Error::other)
    }
}

fn log(event: &WorkEvent<'_, String>) {
    match event {
        WorkEvent::Retry { item, attempt, wait, cause, trend, .. } => {
            println!("  {item}: {cause}, {attempt} in a row ({trend:?}), again in {wait:.1?}");
        }
        WorkEvent::Postponed { item, stop: Some(stop), wait, .. } => {
            println!("  {item}: stopped ({}), rests for {wait:.1?}", stop.name());
        }
        WorkEvent::Done { item, attempt: attempt @ 2.., .. } => {
            println!("  {item}: recovered after {} failures", attempt - 1);
        }
        _ => {}
    }
}

fn policy() -> Result<Policy, redial_core::Invalid> {
    let budget = WindowBudget::ratio(0.2).ttl(Duration::from_secs(10)).bootstrap(100);
    Policy::draft()
        .attempts(20)
        .without_deadline()
        .backoff(Backoff::exponential(Duration::from_millis(20), Duration::from_millis(500)))
        .budget(Budget::Window(budget))
        .build()
}

/// Changes the spec and the folder, and waits each time until they match again.
async fn changes(world: &World, queue: &WorkQueue<String>) -> io::Result<()> {
    println!("five files are wanted, and the folder is missing");
    let spec: String = (1..=5).map(|number| format!("file-{number} = version 1\n")).collect();
    fs::write(&world.spec, &spec)?;
    world.notice(queue);
    sleep(Duration::from_millis(300)).await;

    println!("the folder is created");
    fs::create_dir(&world.folder)?;
    world.converge().await?;

    println!(
        "the spec changes: one file is new, one is different, one is gone; the change is noticed fifty times"
    );
    let spec = spec.replace("file-1 = version 1", "file-1 = version 2").replace("file-5", "file-6");
    fs::write(&world.spec, spec)?;
    (0..50).for_each(|_| world.notice(queue));
    world.converge().await?;

    println!("a file is overwritten");
    fs::write(world.folder.join("file-2"), "something else")?;
    world.notice(queue);
    world.converge().await
}

async fn control(directory: &Path) -> io::Result<()> {
    let world = World { spec: directory.join("spec"), folder: directory.join("world") };
    let queue = WorkQueue::default();
    let pool = Reconciler::new(queue.clone(), policy().map_err(io::Error::other)?)
        .workers(2)
        .rate(&RateRule::new(redial_core::Rate::per_second(200), 20))
        .watch(log);
    let pool = Arc::new(pool);
    let work = {
        let world = world.clone();
        move |name: String, _| {
            let world = world.clone();
            async move {
                match world.apply(&name) {
                    Ok(what) => {
                        println!("  {name}: {what}");
                        Reconciled::Done
                    }
                    Err(_) => Reconciled::Failed(Failure::new(Class::Transient)),
                }
            }
        }
    };
    let running = tokio::spawn(Arc::clone(&pool).run(work));
    let result = changes(&world, &queue).await;
    let left = queue.drain().await;
    running.await.map_err(io::Error::other)?;
    result?;

    let stats = pool.stats();
    let (done, retries, wait) = (stats.done, &stats.work.retries, stats.work.limiter_wait);
    println!(
        "{done} runs done, retries {retries:?}, {wait:.1?} spent waiting for the rate limit, left: {left:?}"
    );
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let directory = std::env::temp_dir().join(format!("redial-controller-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let ended = control(&directory).await;
    fs::remove_dir_all(&directory)?;
    ended
}
