use std::time::Duration;

use redial_queue::durable::{Claim, NewJob, Store, StoreError};
use redial_queue::postgres::PostgresStore;

use super::server::{QUEUE, claim, client, done, own, store, until_reached, url};
use crate::conformance::fresh;

/// The error of connecting. It must not contain the password.
async fn refused(url: &str) -> StoreError {
    let error = PostgresStore::builder(url).schema(&fresh()).connect().await.err();
    let error = error.expect("it connected");
    assert!(!error.to_string().contains("geheim"), "{error}");
    assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
    error
}

fn invalid(error: &StoreError, part: &str) {
    assert!(matches!(error, StoreError::Invalid(_)), "{error:?}");
    assert!(error.to_string().contains(part), "{error}");
}

#[tokio::test]
async fn an_invalid_url_is_reported() {
    for url in ["", "postgres://", "mysql://me:geheim@there/x", "postgres://me:geheim@there:port/x"]
    {
        invalid(&refused(url).await, "postgres://USER:PASSWORD@HOST:PORT/DATABASE");
    }
    invalid(&refused("postgres://me:geheim@there/x?sslmode=maybe").await, "sslmode=maybe");
    let verify = "postgres://me:geheim@there/x?sslmode=verify-full";
    invalid(&refused(verify).await, "sslrootcert=FILE");
    let missing = "postgres://me:geheim@there/x?sslmode=verify-ca&sslrootcert=/no/such.pem";
    invalid(&refused(missing).await, "/no/such.pem");
}

#[tokio::test]
async fn a_server_without_tls_is_reported() {
    invalid(&refused(&format!("{}?sslmode=require", url())).await, "sslmode=disable");
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable() {
    let free = crate::ports::free_address();
    let error = refused(&format!("postgres://me:geheim@{free}/x")).await;
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains(&format!("me@127.0.0.1:{}/x", free.port())), "{error}");
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_database_are_reported() {
    let own = own(&[]);
    let admin = client(&own.url()).await;
    admin.batch_execute("create role locked login password 'geheimnis'").await.unwrap();
    let at = own.address();
    invalid(&refused(&format!("postgres://locked:geheim@{at}/postgres")).await, "28P01");
    invalid(&refused(&format!("postgres://locked@{at}/postgres")).await, "password");
    invalid(&refused(&format!("postgres://redial@{at}/nowhere")).await, "\"nowhere\"");
    // With the right password, the role may still not create the tables.
    let bare = format!("postgres://locked:geheimnis@{at}/postgres");
    invalid(&refused(&bare).await, "grant CREATE on the database");
    admin.batch_execute("grant create on database postgres to locked").await.unwrap();
    PostgresStore::connect(&bare).await.unwrap();
}

#[tokio::test]
async fn tables_of_a_newer_version_are_left_alone() {
    let (_, schema) = store().await;
    let admin = client(&url()).await;
    let newer = format!("update {schema}.version set version = 99");
    admin.batch_execute(&newer).await.unwrap();
    let error = PostgresStore::builder(&url()).schema(&schema).connect().await.err().unwrap();
    invalid(&error, "use a newer program");
}

#[tokio::test]
async fn tables_of_an_older_version_are_brought_up_to_date() {
    let (old, schema) = store().await;
    old.enqueue("orders", vec![NewJob::new("x")]).await.unwrap();
    let older = format!(
        "alter table {schema}.job drop column poll; update {schema}.version set version = 1"
    );
    client(&url()).await.batch_execute(&older).await.unwrap();
    let new = PostgresStore::builder(&url()).schema(&schema).connect().await.unwrap();
    let claim = Claim { queue: "orders".to_owned(), most: 1, lease: Duration::ZERO };
    // A process that had the tables open before continues with them.
    for store in [&old, &new] {
        let claimed = store.claim(&claim).await.unwrap().jobs;
        assert_eq!((claimed.len(), claimed[0].job.progress.poll), (1, false));
    }
}

#[tokio::test]
async fn schema_names_need_no_quoting() {
    for name in ["", "1st", "pg_mine", "a\"b", "Upper", "ä"] {
        let error = PostgresStore::builder(&url()).schema(name).connect().await.err().unwrap();
        invalid(&error, "invalid schema name");
    }
}

#[tokio::test]
async fn ten_processes_create_the_tables_once() {
    let (schema, url) = (fresh(), url());
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let builder = PostgresStore::builder(&url).schema(&schema);
            tokio::spawn(async move { builder.connect().await.map(|_| ()) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let rows = client(&url).await.query(&format!("select from {schema}.version"), &[]).await;
    assert_eq!(rows.unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_without_free_connections_is_unavailable() {
    let own = own(&["max_connections=5", "superuser_reserved_connections=0", "max_wal_senders=0"]);
    let store = PostgresStore::builder(&own.url()).connections(1).connect().await.unwrap();
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(client(&own.url()).await);
    }
    let late = PostgresStore::connect(&own.url()).await.err().unwrap();
    assert!(matches!(late, StoreError::Unavailable(_)), "{late:?}");
    assert!(late.to_string().contains("53300"), "{late}");
    // An open connection still works.
    store.enqueue(QUEUE, vec![NewJob::new("x")]).await.unwrap();
    others.clear();
    let url = own.url();
    let late = until_reached(|| PostgresStore::connect(&url)).await;
    let claimed = claim(&late, 1, Duration::from_secs(60)).await.unwrap();
    assert_eq!(claimed[0].job.payload, b"x");
}

#[tokio::test]
async fn a_blocked_step_times_out() {
    let schema = fresh();
    let url = url();
    let builder = || PostgresStore::builder(&url).schema(&schema);
    let store = builder().connect().await.unwrap();
    // Only the step that is blocked has little time, because a busy machine may take long for the others.
    let hasty = until_reached(|| builder().timeout(Duration::from_secs(1)).connect()).await;
    store.enqueue(QUEUE, vec![NewJob::new("x")]).await.unwrap();
    let claimed = claim(&store, 1, Duration::from_secs(3600)).await.unwrap();
    let mut other = client(&url).await;
    let blocking = other.transaction().await.unwrap();
    blocking.query(&format!("select from {schema}.job for update"), &[]).await.unwrap();
    let error = hasty.settle(vec![done(&claimed[0])]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains("57014"), "{error}");
    blocking.rollback().await.unwrap();
    let settled = store.settle(vec![done(&claimed[0])]).await.unwrap();
    assert_eq!(settled, [redial_queue::durable::Settled::Taken]);
}

/// Makes the server roll back the first `conflicts` inserts of a schema. The sequence counts all of them: it is not rolled back.
async fn conflict(schema: &str, conflicts: u32) -> String {
    let trigger = format!(
        "create sequence {schema}.inserts; \
         create function {schema}.conflict() returns trigger language plpgsql as $$ begin \
             if nextval('{schema}.inserts') <= {conflicts} then \
                 raise exception 'conflict' using errcode = 'serialization_failure'; \
             end if; \
             return new; \
         end $$; \
         create trigger conflict before insert on {schema}.job for each row execute function {schema}.conflict()"
    );
    client(&url()).await.batch_execute(&trigger).await.unwrap();
    format!("select last_value from {schema}.inserts")
}

#[tokio::test]
async fn a_step_that_was_rolled_back_is_repeated() {
    let (store, schema) = store().await;
    let inserts = conflict(&schema, 5).await;
    store.enqueue(QUEUE, vec![NewJob::new("x")]).await.unwrap();
    let attempts: i64 = client(&url()).await.query_one(&inserts, &[]).await.unwrap().get(0);
    assert_eq!(attempts, 6);
    assert_eq!(store.counts(QUEUE).await.unwrap().enqueued, 1);
}

#[tokio::test]
async fn a_step_that_is_always_rolled_back_is_given_up() {
    let (store, schema) = store().await;
    let inserts = conflict(&schema, 100).await;
    let error = store.enqueue(QUEUE, vec![NewJob::new("x")]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains("40001"), "{error}");
    let attempts: i64 = client(&url()).await.query_one(&inserts, &[]).await.unwrap().get(0);
    assert_eq!(attempts, 6);
    assert_eq!(store.counts(QUEUE).await.unwrap().enqueued, 0);
}
