//! A server stands still for 200 ms and turns callers away. What do they do to it when it continues?
//!
//! The answer in virtual time is a test (`slots`, in `crates/redial/tests/it`). This is the same with a real
//! server: axum behind the shed layer, hyper's client behind the retry layer, keep-alive connections, loopback. A
//! thousand clients think for an exponentially distributed time, make a call, and think again; ten places of 10 ms
//! each (also exponential) can serve 1,000 requests a second. There is no budget, so that only the content of a
//! rejection shapes the retries.

use std::fmt;
use std::future::{Future, IntoFuture as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use redial::admit::budget::Budget;
use redial::http::server::ShedLayer;
use redial::http::{RetryLayer, names};
use redial::{Policy, Retry};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::util::{MapRequestLayer, MapResponseLayer};
use tower::{Layer as _, ServiceExt as _};

const CLIENTS: u32 = 1000;
const PLACES: usize = 10;
const SERVICE_MS: f64 = 10.0;
const CAPACITY_PER_MS: f64 = PLACES as f64 / SERVICE_MS;
const PAUSE_MS: std::ops::Range<u64> = 1_500..1_700;
/// No call begins after this.
const END_MS: u64 = 4_000;
/// Unfinished calls are not awaited after this.
const OVER_MS: u64 = 4_600;
const BUCKET_MS: u64 = 100;
const LOADS: [f64; 2] = [0.5, 0.8];

const SAYS: [Says; 4] = [Says::Slots, Says::SlotsOfEverything, Says::InOneSecond, Says::Nothing];

/// The content of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Says {
    Slots,
    SlotsOfEverything,
    InOneSecond,
    Nothing,
}

/// Every row of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    storms: Vec<Storm>,
}

/// One server with its clients.
#[derive(Debug, Serialize)]
struct Storm {
    says: Says,
    load: f64,
    calls: u32,
    unfinished: u32,
    /// Of the finished calls.
    served_share: f64,
    /// Requests in the busiest 100 ms after the pause, relative to the capacity.
    peak: f64,
    /// The same before the pause: the effect of chance at this load.
    peak_before: f64,
}

pub(crate) fn measure() -> Result<Report, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut storms = Vec::new();
        for says in SAYS {
            let [half, most] = LOADS.map(|load| tokio::spawn(storm(says, load)));
            for storm in [half.await, most.await] {
                storms.push(storm.map_err(|error| error.to_string())??);
            }
        }
        Ok(Report { storms })
    })
}

async fn storm(says: Says, load: f64) -> Result<Storm, String> {
    let shared = Arc::new(Shared::new(load));
    let address = serve(says, Arc::clone(&shared)).await?;
    let clients = clients(address, Arc::clone(&shared))?;
    let over = shared.started + Duration::from_millis(OVER_MS);
    drop(tokio::time::timeout_at(over.into(), clients).await);
    Ok(shared.result(says))
}

/// The state that server and clients share.
struct Shared {
    load: f64,
    started: Instant,
    drawn: AtomicU64,
    calls: AtomicU32,
    served: AtomicU32,
    failed: AtomicU32,
    arrivals: Vec<AtomicU32>,
}

impl Shared {
    fn new(load: f64) -> Self {
        let (calls, served, failed) = Default::default();
        let arrivals = (0..OVER_MS / BUCKET_MS + 10).map(|_| AtomicU32::new(0)).collect();
        let started = Instant::now();
        Self { load, started, drawn: AtomicU64::new(0), calls, served, failed, arrivals }
    }

    fn now_ms(&self) -> f64 {
        self.started.elapsed().as_secs_f64() * 1e3
    }

    /// An exponentially distributed time.
    fn exponential_ms(&self, mean: f64) -> f64 {
        let bits = redial_core::draw(7, self.drawn.fetch_add(1, Ordering::Relaxed));
        let unit = ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -unit.ln() * mean
    }

    fn arrived(&self) {
        if let Some(bucket) = self.arrivals.get((self.now_ms() as u64 / BUCKET_MS) as usize) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How long a request that starts now is served. No work progresses while the server stands still.
    fn service_ms(&self) -> f64 {
        let (start, end) = (PAUSE_MS.start as f64, PAUSE_MS.end as f64);
        let (now, work) = (self.now_ms(), self.exponential_ms(SERVICE_MS));
        if now < start && now + work >= start {
            work + (end - start)
        } else if (start..end).contains(&now) {
            work + (end - now)
        } else {
            work
        }
    }

    fn peak(&self, during_ms: std::ops::Range<u64>) -> f64 {
        let buckets = (during_ms.start / BUCKET_MS) as usize..(during_ms.end / BUCKET_MS) as usize;
        let counts = self.arrivals[buckets].iter().map(|count| count.load(Ordering::Relaxed));
        f64::from(counts.max().unwrap_or(0)) / (CAPACITY_PER_MS * BUCKET_MS as f64)
    }

    fn result(&self, says: Says) -> Storm {
        let [calls, served, failed] = [&self.calls, &self.served, &self.failed]
            .map(|count: &AtomicU32| count.load(Ordering::Relaxed));
        Storm {
            says,
            load: self.load,
            calls,
            unfinished: calls - served - failed,
            served_share: f64::from(served) / f64::from(served + failed),
            peak: self.peak(PAUSE_MS.end..END_MS),
            // Connections are still being opened in the first moments.
            peak_before: self.peak(500..PAUSE_MS.start),
        }
    }
}

/// Starts a server on loopback that counts requests and rewrites its rejections.
async fn serve(says: Says, shared: Arc<Shared>) -> Result<SocketAddr, String> {
    let layer = ShedLayer::new(PLACES);
    let layer = match says {
        Says::SlotsOfEverything => layer.min_share(1.0).map_err(|error| error.to_string())?,
        _ => layer,
    };
    let counting = Arc::clone(&shared);
    let handler = move || {
        let shared = Arc::clone(&shared);
        async move { pause(shared.service_ms()).await }
    };
    let app = Router::new()
        .route("/", get(handler))
        .layer(layer)
        .layer(MapResponseLayer::new(move |response| rewrite(says, response)))
        .layer(MapRequestLayer::new(move |request: Request<_>| {
            counting.arrived();
            request
        }));
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    tokio::spawn(axum::serve(listener, app).into_future());
    Ok(address)
}

fn rewrite<B>(says: Says, mut response: Response<B>) -> Response<B> {
    let hinted = matches!(says, Says::Slots | Says::SlotsOfEverything);
    if response.status() == StatusCode::SERVICE_UNAVAILABLE && !hinted {
        let headers = response.headers_mut();
        for name in [header::RETRY_AFTER, names::RETRY_AFTER_MS, names::SLOT, names::STOP] {
            headers.remove(name);
        }
        if says == Says::InOneSecond {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
    }
    response
}

/// Clients that think, call and think again; done when all of them are.
fn clients(address: SocketAddr, shared: Arc<Shared>) -> Result<impl Future<Output = ()>, String> {
    let draft = Policy::draft().budget(Budget::None).attempts(20);
    let policy = draft.deadline(Duration::from_secs(10)).build();
    let layer = RetryLayer::new(Retry::new(policy.map_err(|error| error.to_string())?));
    let client = layer.layer(Client::builder(TokioExecutor::new()).build_http());
    let mean = f64::from(CLIENTS) / (shared.load * CAPACITY_PER_MS) - SERVICE_MS;
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (client, shared) = (client.clone(), Arc::clone(&shared));
        clients.spawn(async move {
            loop {
                pause(shared.exponential_ms(mean)).await;
                if shared.now_ms() >= END_MS as f64 {
                    return;
                }
                shared.calls.fetch_add(1, Ordering::Relaxed);
                let request = Request::get(format!("http://{address}/"));
                let request = request.body(Empty::<Bytes>::new()).expect("a request");
                let answer = client.clone().oneshot(request).await;
                let served = answer.as_ref().is_ok_and(|answer| answer.status().is_success());
                let ended = if served { &shared.served } else { &shared.failed };
                ended.fetch_add(1, Ordering::Relaxed);
                // To its end, so that the connection is reused.
                if let Ok(answer) = answer {
                    drop(answer.into_body().collect().await);
                }
            }
        });
    }
    Ok(async move { while clients.join_next().await.is_some() {} })
}

async fn pause(ms: f64) {
    tokio::time::sleep(Duration::from_secs_f64(ms / 1e3)).await;
}

impl Says {
    fn text(self) -> &'static str {
        match self {
            Self::Slots => "a slot of the spare capacity",
            Self::SlotsOfEverything => "a slot of the whole capacity",
            Self::InOneSecond => "Retry-After: 1",
            Self::Nothing => "nothing (full jitter)",
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "a rejection says              load  served   peak  before  calls  unfinished"
        )?;
        for storm in &self.storms {
            let Storm { says, load, calls, unfinished, peak, peak_before, .. } = storm;
            let (says, served) = (says.text(), storm.served_share * 100.0);
            writeln!(
                f,
                "{says:28}  {load:4}  {served:5.1}%  {peak:5.2}  {peak_before:6.2}  {calls:5}  {unfinished:10}"
            )?;
        }
        writeln!(
            f,
            "Peak: requests in the busiest 100 ms of the 2.3 s after a standstill of 200 ms (before:"
        )?;
        writeln!(
            f,
            "of the second before it), relative to capacity. Served: of the calls that are finished."
        )?;
        writeln!(f, "In virtual time, means of 20 runs over 5 s each:")?;
        writeln!(f, "`cargo test -p redial --all-features --test it slots -- --nocapture`.")
    }
}
