//! A network to Redis that is slow, drops everything, or delays a packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use redial::Key;
use redial::http::server::idempotency::{
    Begun, IdempotencyLayer, IdempotencyStore, Interrupted, KeyClaim, KeyTerms, RedisStore,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::support::{Direct, claim, redis_url};
use crate::support::ms;

const HOUR: Duration = Duration::from_secs(3600);

const TERMS: KeyTerms = KeyTerms { lease: HOUR, ttl: HOUR, on_interrupted: Interrupted::Refuse };

/// A proxy in front of the tests' Redis.
struct Wire {
    port: u16,
    faults: Arc<Faults>,
}

#[derive(Default)]
struct Faults {
    /// The one-way latency in ms.
    latency: u64,
    /// Whether all data is dropped.
    hole: AtomicBool,
    /// Delays the next bytes to Redis by this many ms, once.
    delay_once: AtomicU64,
    /// Sets the next reply to TIME back by three years, once.
    past_once: AtomicBool,
    connections: AtomicUsize,
}

impl Faults {
    async fn pass(&self) {
        tokio::time::sleep(ms(self.latency)).await;
        while self.hole.load(Ordering::SeqCst) {
            tokio::time::sleep(ms(1)).await;
        }
    }

    async fn there(self: Arc<Self>, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = vec![0; 65_536];
        while let Ok(n @ 1..) = from.read(&mut buffer).await {
            tokio::time::sleep(ms(self.delay_once.swap(0, Ordering::SeqCst))).await;
            self.pass().await;
            if to.write_all(&buffer[..n]).await.is_err() {
                return;
            }
        }
    }

    async fn back(self: Arc<Self>, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = vec![0; 65_536];
        while let Ok(n @ 1..) = from.read(&mut buffer).await {
            self.pass().await;
            // Two strings; the first has the ten digits of the seconds.
            let time = b"*2\r\n$10\r\n";
            let at = buffer[..n].windows(time.len()).position(|window| window == time);
            if let Some(at) = at.filter(|_| self.past_once.swap(false, Ordering::SeqCst)) {
                buffer[at + time.len() + 1] -= 1;
            }
            if to.write_all(&buffer[..n]).await.is_err() {
                return;
            }
        }
    }
}

impl Wire {
    async fn new(latency: u64) -> Self {
        let target = redis_url().trim_start_matches("redis://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults = Arc::new(Faults { latency, ..Faults::default() });
        let all = faults.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                all.connections.fetch_add(1, Ordering::SeqCst);
                let far = TcpStream::connect(&target).await.unwrap();
                let ((near_in, near_out), (far_in, far_out)) =
                    (near.into_split(), far.into_split());
                tokio::spawn(all.clone().there(near_in, far_out));
                tokio::spawn(all.clone().back(far_in, near_out));
            }
        });
        Self { port, faults }
    }

    async fn store(&self, timeout: Duration) -> Arc<RedisStore> {
        let store = RedisStore::connect(&format!("redis://127.0.0.1:{}", self.port)).await.unwrap();
        Arc::new(store.prefix(format!("{}:", Key::fresh())).timeout(timeout))
    }

    fn connections(&self) -> usize {
        self.faults.connections.load(Ordering::SeqCst)
    }
}

fn numbered(n: u64) -> KeyClaim {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&n.to_be_bytes());
    KeyClaim::new(key, [1; 32])
}

/// A hundred requests a second while all data is dropped: a request that has waited for others to connect has less time
/// left than a connection takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_reconnect_to_a_restarted_redis_under_load() {
    let wire = Wire::new(10).await;
    let store = wire.store(ms(1_000)).await;
    store.begin(&claim(1, 1), &TERMS).await.unwrap();
    let hasty = Arc::new(Arc::into_inner(store).unwrap().timeout(ms(150)));
    let good = Arc::new(AtomicUsize::new(0));
    let load = tokio::spawn({
        let good = good.clone();
        async move {
            let mut tick = tokio::time::interval(ms(10));
            for n in 1.. {
                tick.tick().await;
                let (store, good) = (hasty.clone(), good.clone());
                tokio::spawn(async move {
                    let done = store.begin(&numbered(n), &TERMS).await.is_ok();
                    good.fetch_add(usize::from(done), Ordering::SeqCst);
                });
            }
        }
    });
    wire.faults.hole.store(true, Ordering::SeqCst);
    tokio::time::sleep(ms(1_000)).await;
    let made = wire.connections();
    assert!(made < 10, "{made} connections in a second in which none can be made");
    good.store(0, Ordering::SeqCst);
    wire.faults.hole.store(false, Ordering::SeqCst);
    let found = async {
        while good.load(Ordering::SeqCst) < 50 {
            tokio::time::sleep(ms(10)).await;
        }
    };
    let found = tokio::time::timeout(ms(20_000), found).await;
    load.abort();
    assert!(found.is_ok(), "{} connections later", wire.connections() - made);
}

/// A packet is lost and retransmitted, while its caller times out and releases the key over a new connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_taken_after_a_timeout_is_released() {
    let wire = Wire::new(1).await;
    let store = wire.store(ms(500)).await;
    // Load the scripts first.
    store.begin(&claim(1, 1), &TERMS).await.unwrap();
    store.release(&claim(1, 1)).await.unwrap();
    let direct = Direct::new(&IdempotencyLayer::new(store).lease(ms(500)));
    wire.faults.delay_once.store(700, Ordering::SeqCst);
    assert_eq!(direct.post("/pay", "a").await.problem(), (503, "unavailable".to_owned()));
    tokio::time::sleep(ms(1_500)).await;
    assert_eq!(direct.post("/pay", "a").await.body, "payment 1 of 10 bytes");
}

/// A connection that drops all data looks like a slow server. The next request does not wait behind it, and requests that
/// time out on it later do not close the next connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_does_not_answer_is_replaced_once() {
    let wire = Wire::new(0).await;
    let store = wire.store(ms(400)).await;
    store.begin(&claim(1, 1), &TERMS).await.unwrap();
    wire.faults.delay_once.store(60_000, Ordering::SeqCst);
    let late = |n| {
        let store = store.clone();
        async move { store.begin(&numbered(n), &TERMS).await }
    };
    let first = tokio::spawn(late(1));
    tokio::time::sleep(ms(200)).await;
    let second = tokio::spawn(late(2));
    assert!(first.await.unwrap().is_err());
    assert_eq!(store.begin(&claim(2, 1), &TERMS).await.unwrap(), Begun::Started);
    assert!(second.await.unwrap().is_err());
    assert_eq!(store.begin(&claim(3, 1), &TERMS).await.unwrap(), Begun::Started);
    assert_eq!(wire.connections(), 2);
}

/// After a release, a late `begin` of the same owner takes no key; other owners can take it.
#[tokio::test]
async fn a_release_that_overtakes_its_begin_takes_effect() {
    let store = Wire::new(0).await.store(ms(20_000)).await;
    let (one, two, third) = (claim(1, 1), claim(1, 1), claim(1, 2));
    store.release(&one).await.unwrap();
    store.release(&two).await.unwrap();
    assert!(store.begin(&one, &TERMS).await.is_err());
    assert!(store.begin(&two, &TERMS).await.is_err());
    assert_eq!(store.begin(&third, &TERMS).await.unwrap(), Begun::Started);
    store.finish(&third, "paid".into(), &TERMS).await.unwrap();
}

/// The server's clock is read with each new connection, so after a jump every command seems late.
#[tokio::test]
async fn a_clock_jump_fails_no_request() {
    let wire = Wire::new(0).await;
    wire.faults.past_once.store(true, Ordering::SeqCst);
    let store = wire.store(ms(20_000)).await;
    assert_eq!(store.begin(&claim(1, 1), &TERMS).await.unwrap(), Begun::Started);
    assert_eq!(wire.connections(), 2);
}
