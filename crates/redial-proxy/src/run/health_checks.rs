//! Asks endpoints for their health.

use std::pin::pin;
use std::sync::Arc;

use http::{Method, Request, StatusCode, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use redial::http::BoxError;
use redial_policy::file::HealthCheck;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::reload::Reloader;
use crate::config::snapshot::Upstream;
use crate::responses::body::Outbound;
use crate::upstream::endpoint::Endpoint;

/// Checks the endpoints of all upstreams that want it.
pub(crate) async fn check(reloader: Arc<Reloader>) {
    loop {
        let snapshot = reloader.shared.snapshot.load();
        let mut checks = JoinSet::new();
        for upstream in &snapshot.upstreams {
            match &upstream.health {
                Some(health) => {
                    let (upstream, health) = (Arc::clone(upstream), health.clone());
                    checks.spawn(check_upstream(Arc::clone(&reloader), upstream, health));
                }
                // There may have been checks before.
                None => upstream.endpoints.all.iter().for_each(|endpoint| {
                    endpoint.set_healthy(true);
                }),
            }
        }
        reloader.changed.notified().await;
    }
}

async fn check_upstream(reloader: Arc<Reloader>, upstream: Arc<Upstream>, health: HealthCheck) {
    let mut ticks = interval(health.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let mut checks = JoinSet::new();
        for endpoint in upstream.endpoints.all.iter().cloned() {
            let (reloader, upstream, health) =
                (Arc::clone(&reloader), Arc::clone(&upstream), health.clone());
            checks.spawn(async move {
                let checked = timeout(health.timeout, fetch_status(&endpoint, &health.path));
                let problem = match checked.await {
                    Ok(Ok(status)) if status.is_success() => None,
                    Ok(Ok(status)) => Some(status.to_string()),
                    Ok(Err(error)) => Some(error.to_string()),
                    Err(_) => Some(format!("no answer within {:?}", health.timeout)),
                };
                if endpoint.set_healthy(problem.is_none()) {
                    let what = format!("{}: {}", upstream.name, endpoint.name);
                    match problem {
                        None => reloader
                            .shared
                            .event("healthy", format!("{what} passes its check again")),
                        Some(problem) => reloader.shared.event(
                            "unhealthy",
                            format!("{what} gets no requests until it passes its check: {problem}"),
                        ),
                    }
                }
            });
        }
        while checks.join_next().await.is_some() {}
    }
}

/// Asks an endpoint for its health, on a connection of its own.
async fn fetch_status(endpoint: &Endpoint, path: &str) -> Result<StatusCode, BoxError> {
    let stream = endpoint.dialer.dial().await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let host = endpoint.host.clone();
    let request = Request::builder().method(Method::GET).uri(path).header(header::HOST, host);
    let request = request.header(header::CONNECTION, "close").body(Outbound::Empty)?;
    let mut response = pin!(sender.send_request(request));
    tokio::select! {
        response = &mut response => Ok(response?.status()),
        // The end may come together with the response.
        _ = connection => Ok(response.await?.status()),
    }
}
