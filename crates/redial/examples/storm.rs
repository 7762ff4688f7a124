//! A shop asks a backend, users ask the shop, and a switch breaks the backend: a storm to look at, with `redial
//! doctor`, Prometheus or Grafana.
//!
//! `cargo run -p redial --example storm --features metrics,reqwest -- --policy naive --port 9000`
//!
//! It prints where it is; without `--port` it takes a free one. `GET /metrics` has the metrics. `POST /users/COUNT` sends that
//! many users at once and returns when all of them are done, for tests with `--rate 0`. `POST /phase/NAME` changes what
//! happens:
//!
//! - `normal`: the backend answers, and each user asks once;
//! - `outage`: the backend answers 503. With `--policy naive` (three attempts and no budget) the shop makes a storm of it,
//!   with `--policy standard` it does not;
//! - `surge`: three times the users, so that the backend gets as much as in the naive shop's outage, and all of it is new;
//! - `layered`: as in an outage, and a gateway between the users and the shop asks up to three times. With `--policy once`
//!   the shop does not retry at all, and still sends three attempts for each user.
#![allow(clippy::print_stdout, reason = "an example shows what happened")]

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use redial::http::names;
use redial::http::reqwest::{SendWith as _, client_builder};
use redial::http::server::DeadlineLayer;
use redial::schedule::Backoff;
use redial::telemetry::{Meter, ServerMeter, buckets, publish};
use redial::{Draft, Policy, Retry};
use reqwest::Client;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Attempts of the naive shop, and of the gateway.
const ATTEMPTS: u32 = 3;
const PHASES: [&str; 4] = ["normal", "outage", "surge", "layered"];
const USAGE: &str = "storm [--policy naive|standard|once] [--phase normal|outage|surge|layered] \
                     [--rate USERS-PER-SECOND] [--port PORT]";

/// What happens now, as a place in [`PHASES`].
#[derive(Clone, Default)]
struct Phase(Arc<AtomicU8>);

impl Phase {
    fn set(&self, name: &str) -> Option<()> {
        let place = PHASES.iter().position(|phase| *phase == name)?;
        self.0.store(u8::try_from(place).ok()?, Ordering::Relaxed);
        Some(())
    }

    fn name(&self) -> &'static str {
        PHASES[usize::from(self.0.load(Ordering::Relaxed))]
    }
}

struct Options {
    policy: Policy,
    phase: Phase,
    rate: u32,
    port: u16,
}

fn options() -> Result<Options, Failure> {
    let mut options =
        Options { policy: policy("naive")?, phase: Phase::default(), rate: 50, port: 0 };
    let mut args = env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match name.as_str() {
            "--policy" => options.policy = policy(&value)?,
            "--phase" => options.phase.set(&value).ok_or(USAGE)?,
            "--rate" => options.rate = value.parse::<u32>()?.min(1000),
            "--port" => options.port = value.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    Ok(options)
}

fn policy(name: &str) -> Result<Policy, Failure> {
    let backoff = Backoff::constant(Duration::from_millis(20));
    match name {
        "naive" => Ok(Draft::bare(ATTEMPTS).backoff(backoff).build()?),
        "once" => Ok(Draft::bare(1).build()?),
        "standard" => Ok(Policy::standard()),
        _ => Err(USAGE.into()),
    }
}

/// What a user asks for, and the shop has to ask the backend for.
#[derive(Clone)]
struct Shop {
    client: Client,
    retry: Retry,
    backend: String,
}

async fn order(State(shop): State<Shop>) -> StatusCode {
    let answer = shop.client.get(&shop.backend).send_with(&shop.retry).await;
    answer.map_or(StatusCode::BAD_GATEWAY, |answer| answer.status())
}

async fn stock(State(phase): State<Phase>) -> StatusCode {
    match phase.name() {
        "outage" | "layered" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    }
}

async fn metrics(State(exporter): State<PrometheusHandle>) -> String {
    publish();
    exporter.render()
}

async fn set_phase(
    State(users): State<Users>,
    Path(name): Path<String>,
) -> Result<String, (StatusCode, String)> {
    let known = || (StatusCode::NOT_FOUND, format!("there are {}\n", PHASES.join(", ")));
    users.phase.set(&name).ok_or_else(known)?;
    Ok(format!("{name}\n"))
}

async fn send_users(State(users): State<Users>, Path(count): Path<u32>) {
    (0..count).map(|_| users.ask()).collect::<JoinSet<()>>().join_all().await;
}

#[derive(Clone)]
struct Users {
    client: Client,
    shop: String,
    phase: Phase,
}

impl Users {
    /// Users come at an even pace, each with one request.
    async fn come(self, rate: u32) {
        let mut ticks = interval(Duration::from_secs(1) / (rate * ATTEMPTS));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for tick in 0_u32.. {
            ticks.tick().await;
            if tick % ATTEMPTS == 0 || self.phase.name() == "surge" {
                tokio::spawn(self.ask());
            }
        }
    }

    /// The request of one user. A gateway that retries says so, as gateways do.
    fn ask(&self) -> impl Future<Output = ()> + use<> {
        let Self { client, shop, phase } = self.clone();
        let attempts = if phase.name() == "layered" { ATTEMPTS } else { 1 };
        async move {
            for attempt in 1..=attempts {
                let request = client.get(&shop).header(names::ATTEMPT, attempt);
                if request.send().await.is_ok_and(|answer| answer.status().is_success()) {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Serves on a port of the loopback, and returns its address.
async fn serve(app: Router, port: u16) -> Result<String, Failure> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let address = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async { axum::serve(listener, app).await });
    Ok(address)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let Options { policy, phase, rate, port } = options()?;
    let mut exporter = PrometheusBuilder::new();
    for (name, bounds) in buckets() {
        exporter = exporter.set_buckets_for_metric(Matcher::Full(name.into()), bounds)?;
    }
    let exporter = exporter.install_recorder()?;

    let backend = Router::new().route("/stock", get(stock)).with_state(phase.clone());
    let backend = serve(backend, 0).await? + "/stock";
    let shop = Shop {
        client: client_builder(&policy).build()?,
        retry: Retry::new(policy).meter(Meter::new("backend")),
        backend,
    };
    let shop = Router::new().route("/order", get(order)).with_state(shop);
    let shop = serve(shop.layer(DeadlineLayer::new().meter(ServerMeter::new("shop"))), 0).await?
        + "/order";
    let users = Users { client: Client::new(), shop, phase: phase.clone() };
    let admin = Router::new()
        .route("/phase/{name}", post(set_phase))
        .route("/users/{count}", post(send_users))
        .with_state(users.clone())
        .route("/metrics", get(metrics))
        .with_state(exporter);
    let admin = serve(admin, port).await?;
    println!(
        "{}: {admin}/metrics, and POST {admin}/phase/NAME ({})",
        phase.name(),
        PHASES.join(", ")
    );
    if rate > 0 {
        users.come(rate).await;
    }
    std::future::pending().await
}
