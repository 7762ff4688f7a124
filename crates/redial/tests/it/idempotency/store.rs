//! The table in the docs of `IdempotencyStore`, state by state, for every store.

use std::time::Duration;

use redial::http::server::idempotency::{
    Begun, IdempotencyStore, IdempotencyStoreError, Interrupted, KeyTerms,
};

use super::on_every_store;
use super::support::{claim, finished, within};

const HOUR: Duration = Duration::from_secs(3600);

const TERMS: KeyTerms = KeyTerms { lease: HOUR, ttl: HOUR, on_interrupted: Interrupted::Refuse };

/// A lease that has already expired.
const OVER: KeyTerms = KeyTerms { lease: Duration::ZERO, ..TERMS };

on_every_store!(
    a_running_record,
    a_finished_record,
    an_interrupted_record,
    a_late_owner_changes_nothing,
    a_late_owner_may_finish_a_key_that_was_not_taken,
    a_lost_record_is_written_again,
    a_record_expires,
    keys_are_independent,
);

async fn a_running_record<St: IdempotencyStore>(store: St) {
    let (first, second) = (claim(1, 1), claim(1, 1));
    assert_eq!(store.begin(&first, &TERMS).await.unwrap(), Begun::Started);
    assert_eq!(store.begin(&second, &TERMS).await.unwrap(), Begun::InFlight);
    assert_eq!(store.begin(&claim(1, 2), &TERMS).await.unwrap(), Begun::Mismatch);
    assert_eq!(store.begin(&first, &TERMS).await.unwrap(), Begun::Started, "the reply was lost");
    store.renew(&first, &TERMS).await.unwrap();
    assert_eq!(store.begin(&second, &TERMS).await.unwrap(), Begun::InFlight);
    store.release(&second).await.unwrap();
    assert_eq!(store.begin(&second, &TERMS).await.unwrap(), Begun::InFlight, "another owner");
    store.release(&first).await.unwrap();
    assert_eq!(store.begin(&claim(1, 2), &TERMS).await.unwrap(), Begun::Started);
}

async fn a_finished_record<St: IdempotencyStore>(store: St) {
    let first = claim(1, 1);
    store.begin(&first, &TERMS).await.unwrap();
    store.finish(&first, "paid".into(), &TERMS).await.unwrap();
    for terms in [TERMS, OVER] {
        assert_eq!(store.begin(&claim(1, 1), &terms).await.unwrap(), finished("paid"));
        assert_eq!(store.begin(&claim(1, 2), &terms).await.unwrap(), Begun::Mismatch);
        store.renew(&first, &terms).await.unwrap();
        store.release(&first).await.unwrap();
    }
    assert_eq!(store.begin(&first, &TERMS).await.unwrap(), finished("paid"));
}

async fn an_interrupted_record<St: IdempotencyStore>(store: St) {
    let (first, second) = (claim(1, 1), claim(1, 1));
    store.begin(&first, &OVER).await.unwrap();
    assert_eq!(store.begin(&second, &TERMS).await.unwrap(), Begun::Interrupted);
    assert_eq!(store.begin(&claim(1, 2), &TERMS).await.unwrap(), Begun::Mismatch);
    let executes = KeyTerms { on_interrupted: Interrupted::Execute, ..TERMS };
    assert_eq!(store.begin(&claim(1, 2), &executes).await.unwrap(), Begun::Mismatch);
    assert_eq!(store.begin(&second, &executes).await.unwrap(), Begun::Resumed);
    assert_eq!(store.begin(&claim(1, 1), &executes).await.unwrap(), Begun::InFlight);
    store.renew(&second, &OVER).await.unwrap();
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), Begun::Interrupted);
}

async fn a_late_owner_changes_nothing<St: IdempotencyStore>(store: St) {
    let (late, next) = (claim(1, 1), claim(1, 1));
    let executes = KeyTerms { on_interrupted: Interrupted::Execute, ..TERMS };
    store.begin(&late, &OVER).await.unwrap();
    assert_eq!(store.begin(&next, &executes).await.unwrap(), Begun::Resumed);

    let lost = |result| matches!(result, Err(IdempotencyStoreError::Lost));
    assert!(lost(store.renew(&late, &OVER).await));
    assert!(lost(store.finish(&late, "late".into(), &TERMS).await));
    store.release(&late).await.unwrap();
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), Begun::InFlight);

    store.finish(&next, "next".into(), &TERMS).await.unwrap();
    assert!(lost(store.finish(&late, "late".into(), &TERMS).await));
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), finished("next"));
}

async fn a_late_owner_may_finish_a_key_that_was_not_taken<St: IdempotencyStore>(store: St) {
    let late = claim(1, 1);
    store.begin(&late, &OVER).await.unwrap();
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), Begun::Interrupted);
    store.finish(&late, "late".into(), &TERMS).await.unwrap();
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), finished("late"));
}

async fn a_lost_record_is_written_again<St: IdempotencyStore>(store: St) {
    let (running, done) = (claim(1, 1), claim(2, 1));
    store.renew(&running, &TERMS).await.unwrap();
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), Begun::InFlight);
    store.finish(&done, "paid".into(), &TERMS).await.unwrap();
    assert_eq!(store.begin(&claim(2, 1), &TERMS).await.unwrap(), finished("paid"));
}

async fn a_record_expires<St: IdempotencyStore>(store: St) {
    let short = KeyTerms { ttl: Duration::from_millis(1), ..OVER };
    let started = async |key| {
        within(async {
            while store.begin(&claim(key, 2), &TERMS).await.unwrap() != Begun::Started {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    };
    store.finish(&claim(1, 1), "paid".into(), &short).await.unwrap();
    store.begin(&claim(2, 1), &short).await.unwrap();
    started(1).await;
    started(2).await;
}

async fn keys_are_independent<St: IdempotencyStore>(store: St) {
    store.finish(&claim(1, 1), "one".into(), &TERMS).await.unwrap();
    store.finish(&claim(2, 1), "two".into(), &TERMS).await.unwrap();
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), finished("one"));
    assert_eq!(store.begin(&claim(2, 1), &TERMS).await.unwrap(), finished("two"));
    assert_eq!(store.begin(&claim(3, 1), &TERMS).await.unwrap(), Begun::Started);
}
