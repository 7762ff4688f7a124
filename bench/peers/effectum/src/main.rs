//! `peer-effectum FILE JOBS SECONDS`: puts so many jobs of 200 bytes into a file, works on them for so long at most, 32 at once,
//! and prints how many were done in how long.
//!
//! It sets synchronous to normal when it opens a file and has no option for that, so every connection of this program ignores
//! that pragma and stays at SQLite's default, which is full, as ours is. (It also asks for a pragma `journal`, which there is
//! not; so its journal is the rollback journal.)

use std::error::Error as StdError;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use effectum::{Error, Job, JobRunner, Queue, RunningJob, Worker};
use rusqlite::ffi;

static DONE: AtomicU64 = AtomicU64::new(0);

async fn work(_job: RunningJob, _context: Arc<()>) -> Result<(), Error> {
    DONE.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

unsafe extern "C" fn ignore_synchronous(
    _: *mut c_void,
    action: c_int,
    name: *const c_char,
    value: *const c_char,
    _: *const c_char,
    _: *const c_char,
) -> c_int {
    let is_it = action == ffi::SQLITE_PRAGMA
        && !value.is_null()
        && unsafe { CStr::from_ptr(name) }.to_bytes() == b"synchronous";
    if is_it { ffi::SQLITE_IGNORE } else { ffi::SQLITE_OK }
}

unsafe extern "C" fn on_open(db: *mut ffi::sqlite3, _: *mut *const c_char, _: *const ffi::sqlite3_api_routines) -> c_int {
    unsafe { ffi::sqlite3_set_authorizer(db, Some(ignore_synchronous), std::ptr::null_mut()) }
}

fn stay_full() -> Result<(), Box<dyn StdError>> {
    if unsafe { ffi::sqlite3_auto_extension(Some(on_open)) } != ffi::SQLITE_OK {
        return Err("SQLite takes no extension".into());
    }
    let probe = rusqlite::Connection::open_in_memory()?;
    probe.pragma_update(None, "synchronous", "normal")?;
    let level: i64 = probe.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    if level == 2 { Ok(()) } else { Err(format!("synchronous is {level}, not full").into()) }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn StdError>> {
    let args: Vec<String> = std::env::args().collect();
    let (jobs, seconds): (u64, u64) = (args[2].parse()?, args[3].parse()?);
    stay_full()?;
    let queue = Queue::new(Path::new(&args[1])).await?;
    let payload = vec![b'x'; 200];
    for from in (0..jobs).step_by(1000) {
        let some = from..jobs.min(from + 1000);
        queue.add_jobs(some.map(|_| Job::builder("bench").payload(payload.clone()).build()).collect()).await?;
    }

    let runner = JobRunner::builder("bench", work).build();
    let worker = Worker::builder(&queue, Arc::new(())).max_concurrency(32).jobs([runner]).build().await?;
    while DONE.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let start = Instant::now();
    while DONE.load(Ordering::Relaxed) < jobs && start.elapsed() < Duration::from_secs(seconds) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (done, took) = (DONE.load(Ordering::Relaxed), start.elapsed());
    println!("{}", serde_json::json!({ "jobs": done, "seconds": took.as_secs_f64() }));
    let _ = worker.unregister(Some(Duration::from_secs(1))).await;
    Ok(())
}
