use std::sync::Arc;
use std::time::Duration;

use redial_queue::durable::{Handled, Report, State, Store, StoreError};

use super::faulty::{Fault, Faulty};
use super::{Log, over, work};
use crate::conformance::{job, sqlite};

#[tokio::test]
async fn a_store_that_comes_back_is_asked_again() {
    let shop = sqlite::open().await;
    shop.put_all(vec![job("a"), job("b")]).await;
    let faulty = Faulty::new(&shop.store);
    faulty.claims.lock().unwrap().extend([Fault::Unavailable; 3]);
    faulty.settlements.lock().unwrap().extend([Fault::Unavailable; 3]);
    let (store, log): (Arc<dyn Store>, _) = (faulty, Log::default());
    let report = work(over(&store).watch(log.watch()), |_| async { Handled::Done }).await;
    assert_eq!(report, Report { done: 2, ..Report::default() });
    assert_eq!(log.count("trouble: the store cannot be reached: the line is dead"), 6);
    assert_eq!((shop.counts().await.done, shop.counts().await.stale), (2, 0));
}

#[tokio::test]
async fn a_settlement_whose_answer_is_lost_counts_once() {
    let shop = sqlite::open().await;
    shop.add(job("")).await;
    let faulty = Faulty::new(&shop.store);
    faulty.settlements.lock().unwrap().extend([Fault::Unanswered]);
    let store: Arc<dyn Store> = faulty;
    let report = work(over(&store), |_| async { Handled::Done }).await;
    assert_eq!(report, Report { stale: 1, ..Report::default() });
    assert_eq!(shop.counts().await.done, 1);
}

#[tokio::test]
async fn a_store_that_has_stopped_ends_the_worker() {
    let shop = sqlite::open().await;
    let id = shop.add(job("")).await;
    for fault_at in ["claim", "settle"] {
        let faulty = Faulty::new(&shop.store);
        let faults = if fault_at == "claim" { &faulty.claims } else { &faulty.settlements };
        faults.lock().unwrap().push_back(Fault::Stopped);
        let store: Arc<dyn Store> = faulty;
        let worker = over(&store).lease(Duration::from_secs(600));
        let ended = worker.run(|_| async { Handled::Done }, std::future::pending()).await;
        let Err(StoreError::Stopped(why)) = ended else { panic!("{fault_at}: {ended:?}") };
        assert_eq!(why, "the disk is full");
    }
    assert_eq!(shop.state(id).await, State::Running);
    assert_eq!(shop.counts().await.done, 0);
}
