//! Lost replies: the client cannot know whether it paid.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use redial::admit::budget::Budget;
use redial::http::reqwest::{SendWith as _, client_builder};
use redial::http::server::idempotency::{IdempotencyLayer, IdempotencyStore};
use redial::schedule::Backoff;
use redial::{Policy, Retry};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::on_every_store;
use super::support::within;

on_every_store![five_hundred_payments_through_lost_replies_are_each_made_once];

const PAYMENTS: usize = 500;

type Ledger = Arc<Mutex<HashMap<String, u32>>>;

async fn pay(State(ledger): State<Ledger>, payment: String) -> String {
    let mut ledger = ledger.lock().unwrap();
    *ledger.entry(payment.clone()).or_default() += 1;
    format!("paid {payment}")
}

async fn five_hundred_payments_through_lost_replies_are_each_made_once<St: IdempotencyStore>(
    store: St,
) {
    let ledger = Ledger::default();
    let app = Router::new().route("/pay", post(pay)).with_state(Arc::clone(&ledger));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let app = app.layer(IdempotencyLayer::new(store).required());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let (address, lost) = lossy(server).await;

    let backoff = Backoff::exponential(Duration::from_millis(5), Duration::from_millis(50));
    let policy = Policy::draft().attempts(30).backoff(backoff).budget(Budget::None);
    let policy = policy.deadline(Duration::from_secs(50)).build().unwrap();
    let retry = Retry::new(policy).keyed();
    let client = client_builder(retry.policy()).no_proxy().pool_max_idle_per_host(0);
    let client = client.build().unwrap();
    let payments: Vec<_> = (0..PAYMENTS)
        .map(|n| {
            let request = client.post(format!("http://{address}/pay")).body(format!("payment {n}"));
            let retry = retry.clone();
            tokio::spawn(async move { request.send_with(&retry).await.unwrap().text().await })
        })
        .collect();
    for (n, payment) in payments.into_iter().enumerate() {
        let answer = within(payment).await.unwrap().unwrap();
        assert_eq!(answer, format!("paid payment {n}"));
    }
    let ledger = ledger.lock().unwrap();
    assert_eq!(ledger.len(), PAYMENTS, "every payment was made");
    assert!(ledger.values().all(|times| *times == 1), "no payment was made twice");
    assert!(lost.load(Ordering::SeqCst) > PAYMENTS as u64 / 10, "replies were lost");
}

/// Forwards all requests and drops one reply in three.
async fn lossy(server: SocketAddr) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, lost) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&lost);
    tokio::spawn(async move {
        let mut seen = 0_u64;
        while let Ok((client, _)) = listener.accept().await {
            seen += 1;
            let loses = seen.is_multiple_of(3);
            counted.fetch_add(u64::from(loses), Ordering::SeqCst);
            tokio::spawn(pass(client, server, loses));
        }
    });
    (address, lost)
}

async fn pass(mut client: TcpStream, server: SocketAddr, loses: bool) {
    let Ok(mut upstream) = TcpStream::connect(server).await else { return };
    if !loses {
        let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
        return;
    }
    let (mut from_client, _to_client) = client.split();
    let (mut from_server, mut to_server) = upstream.split();
    let mut reply = [0; 1];
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
        // The reply has started, so the work is done; the client gets nothing.
        _ = from_server.read(&mut reply) => {}
    }
    let _ = to_server.shutdown().await;
    let _ = client.set_zero_linger();
}
