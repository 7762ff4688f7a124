//! A worker is cut off from the server, another one does its job, and then the first one returns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redial_queue::durable::{NewJob, Settled, Store, StoreError};
use redial_queue::postgres::PostgresStore;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::server::{HOUR, QUEUE, claim, done, until_reached, url};
use crate::conformance::fresh;

/// Forwards everything until it is cut; then it silently drops everything.
struct Proxy {
    address: SocketAddr,
    cut: Arc<watch::Sender<bool>>,
}

impl Proxy {
    async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(watch::Sender::new(false));
        let ours = Arc::clone(&cut);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut cut = ours.subscribe();
                tokio::spawn(async move {
                    // A connection that was cut stays silent until the cut ends, and is closed then.
                    if !*cut.borrow() {
                        let Ok(mut far) = TcpStream::connect(to).await else { return };
                        tokio::select! {
                            _ = copy_bidirectional(&mut near, &mut far) => return,
                            _ = cut.wait_for(|cut| *cut) => {}
                        }
                    }
                    let _ = cut.wait_for(|cut| !*cut).await;
                });
            }
        });
        Self { address, cut }
    }
}

#[tokio::test]
async fn a_worker_that_was_cut_off_cannot_settle() {
    let schema = fresh();
    let real: SocketAddr = url().split(['@', '/']).nth(3).unwrap().parse().unwrap();
    let proxy = Proxy::start(real).await;
    let far = url().replace(&real.to_string(), &proxy.address.to_string());
    let open =
        |url: &str| PostgresStore::builder(url).schema(&schema).timeout(Duration::from_secs(1));
    let near = open(&url()).connect().await.unwrap();
    let far = open(&far).connect().await.unwrap();

    near.enqueue(QUEUE, vec![NewJob::new("x")]).await.unwrap();
    let lost = claim(&far, 1, Duration::from_millis(1)).await.unwrap().remove(0);
    proxy.cut.send_replace(true);
    let cut_off = far.settle(vec![done(&lost)]).await.unwrap_err();
    assert!(matches!(cut_off, StoreError::Unavailable(_)), "{cut_off:?}");

    // The lease of a millisecond runs out before the settlement times out.
    let taken = claim(&near, 1, HOUR).await.unwrap().remove(0);
    assert_eq!((taken.job.id, taken.job.progress.attempts), (lost.job.id, 2));
    assert!(taken.lease.fence > lost.lease.fence);

    proxy.cut.send_replace(false);
    let settled = until_reached(|| far.settle(vec![done(&lost)])).await;
    assert_eq!(settled, [Settled::Stale]);
    assert_eq!(far.beat(&[lost.lease], HOUR).await.unwrap(), [false]);
    assert_eq!(near.settle(vec![done(&taken)]).await.unwrap(), [Settled::Taken]);
    // And again when the job is gone.
    assert_eq!(far.settle(vec![done(&lost)]).await.unwrap(), [Settled::Stale]);
    let counts = near.counts(QUEUE).await.unwrap();
    assert_eq!((counts.done, counts.lost, counts.stale), (1, 1, 3));
}
