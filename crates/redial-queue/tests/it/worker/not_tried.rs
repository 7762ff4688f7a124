//! Attempts that fail for reasons of the worker: the job is not charged for them.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redial_core::Policy;
use redial_core::admit::budget::Budget;
use redial_queue::durable::{Handled, Job, NewJob, Until, WorkerError, is_shortage};

use super::{Log, policy, work, worker};
use crate::conformance::{Shop, job, sqlite};

#[tokio::test]
async fn a_job_that_could_not_be_tried_waits_and_is_not_charged() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    let (log, calls) = (Log::default(), Arc::new(AtomicU32::new(0)));
    let handler = {
        let calls = Arc::clone(&calls);
        move |job: Arc<Job>| {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            async move {
                assert_eq!(job.progress.attempts, 1, "each time it is the first attempt");
                if call < 20 { Handled::NotTried("no memory".to_owned()) } else { Handled::Done }
            }
        }
    };
    let one = worker(&shop).policy(policy(|draft| draft.attempts(1))).watch(log.watch());
    let report = work(one, handler).await;
    assert_eq!((report.done, report.postponed, report.dead), (1, 20, 0));
    assert_eq!(shop.store.get(id).await.unwrap(), None);
    assert_eq!(log.count("postponed: no memory"), 20);
}

#[tokio::test]
async fn a_worker_that_can_do_no_job_stops_with_its_error_and_charges_none() {
    let shop = sqlite::open().await;
    shop.store.enqueue(Shop::QUEUE, (0..50).map(|_| NewJob::new("x")).collect()).await.unwrap();
    let broken = |_: Arc<Job>| async { Handled::WorkerFailed("resize.sh: not found".to_owned()) };
    let running = worker(&shop).policy(policy(|draft| draft.attempts(1))).workers(4);
    let running = running.until(Until::Empty).run(broken, pending());
    let ended = tokio::time::timeout(Duration::from_secs(120), running).await.unwrap();
    let Err(WorkerError::Handler(why)) = ended else { panic!("{ended:?}") };
    assert_eq!(why, "resize.sh: not found");

    let jobs = shop.store.list(&Default::default()).await.unwrap();
    assert_eq!(jobs.len(), 50);
    assert!(jobs.iter().all(|job| job.progress.attempts == 0), "none is charged");
    let report = work(worker(&shop), |_| async { Handled::Done }).await;
    assert_eq!(report.done, 50);
}

#[tokio::test]
async fn a_policy_with_a_fleet_is_refused() {
    let shop = sqlite::open().await;
    let window = || Policy::draft().budget(Budget::default());
    let shared = || window().fleet("shop").build().unwrap();
    let named = worker(&shop).policies([("pay".to_owned(), shared())]);
    for worker in [worker(&shop).policy(shared()), named] {
        let ended = worker.run(|_: Arc<Job>| async { Handled::Done }, pending()).await;
        let Err(WorkerError::Policy(invalid)) = ended else { panic!("{ended:?}") };
        assert_eq!((invalid.field(), invalid.value()), ("fleet", "shop"));
    }
}

#[test]
fn shortages_of_a_process() {
    for code in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN, libc::ENOBUFS] {
        assert!(is_shortage(&io::Error::from_raw_os_error(code)), "{code}");
    }
    // A host without IPv6 says "cannot assign requested address" about every receiver that has it.
    let others = [libc::ENOENT, libc::EACCES, libc::ECONNREFUSED, libc::EADDRNOTAVAIL];
    for code in others {
        assert!(!is_shortage(&io::Error::from_raw_os_error(code)), "{code}");
    }
    assert!(!is_shortage(&io::Error::other("no code")));
}
