//! What happens without a request: every timer of the proxy that is not the limit of a connection.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use redial::http::BoxError;
use redial_policy::file::{File, Health};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::body::Outbound;
use crate::control::Control;
use crate::endpoint::Endpoint;
use crate::pool;
use crate::shared::Shared;
use crate::snapshot::Upstream;

/// How often names are looked up. Also the usual time to live of such records.
const LOOK_UP: Duration = Duration::from_secs(5);
/// How often the file is looked at. Notifications would miss the symbolic links of a Kubernetes ConfigMap.
const LOOK_AT_FILE: Duration = Duration::from_secs(2);
/// A file that has changed is read when it has been left alone for so long.
const SETTLED: Duration = Duration::from_millis(50);

/// Keeps the time of this thread's pools, and closes the connections in them that have expired. An idle caller keeps the
/// endpoints of the snapshot of its last request, so those that a reload has removed are swept as well.
pub(crate) async fn sweep(shared: Arc<Shared>) {
    let (mut generation, mut known) = (0, Vec::<Weak<Endpoint>>::new());
    loop {
        if generation != shared.snapshot.generation() {
            generation = shared.snapshot.generation();
            for endpoint in shared.snapshot.load().endpoints().map(Arc::downgrade) {
                if !known.iter().any(|known| known.ptr_eq(&endpoint)) {
                    known.push(endpoint);
                }
            }
        }
        sleep(Duration::from_millis(pool::TICK)).await;
        pool::tick();
        known.retain(|endpoint| endpoint.upgrade().inspect(|it| it.pool.sweep()).is_some());
    }
}

/// Follows the addresses of names.
pub(crate) async fn resolve(control: Arc<Control>) {
    loop {
        sleep(LOOK_UP).await;
        let control = Arc::clone(&control);
        // Fails only if it panics.
        let _ = spawn_blocking(move || control.resolve()).await;
    }
}

/// Reads the file again when it, or a certificate that it names, has changed.
pub(crate) async fn watch(control: Arc<Control>) {
    let Some(path) = control.source.as_ref().map(|source| source.path.clone()) else { return };
    let look = || Stamps::read(&path, &control.shared.snapshot.load().file);
    let mut known = look();
    loop {
        sleep(LOOK_AT_FILE).await;
        let mut seen = look();
        if seen == known {
            continue;
        }
        loop {
            sleep(SETTLED).await;
            let before = std::mem::replace(&mut seen, look());
            if before == seen {
                break;
            }
        }
        let rereading = Arc::clone(&control);
        // Fails only if it panics.
        let _ = spawn_blocking(move || rereading.reread()).await;
        // The certificates are those of the new file. A change meanwhile is one more.
        known = seen.updated(look());
    }
}

/// What identifies the contents of the files that a configuration consists of.
#[derive(PartialEq)]
struct Stamps(BTreeMap<PathBuf, Option<Stamp>>);

/// Device, inode, size, and the time of the last change in seconds and nanoseconds.
type Stamp = (u64, u64, u64, i64, i64);

impl Stamps {
    fn read(path: &PathBuf, file: &File) -> Self {
        let mut paths = vec![path];
        for upstream in &file.upstreams {
            let client = &upstream.tls;
            let server = upstream.listen_tls.as_ref();
            paths.extend(&client.ca);
            paths.extend(server.and_then(|server| server.client_ca.as_ref()));
            let identities = [client.identity.as_ref(), server.map(|server| &server.identity)];
            paths.extend(identities.into_iter().flatten().flat_map(|it| [&it.cert, &it.key]));
        }
        let stamp = |it: Metadata| (it.dev(), it.ino(), it.size(), it.ctime(), it.ctime_nsec());
        let stamped = |path: &PathBuf| (path.clone(), fs::metadata(path).ok().map(stamp));
        Self(paths.into_iter().map(stamped).collect())
    }

    /// These, for the paths of `new`.
    fn updated(&self, new: Self) -> Self {
        let Self(new) = new;
        let kept = |(path, stamp)| {
            let known = self.0.get(&path).copied().unwrap_or(stamp);
            (path, known)
        };
        Self(new.into_iter().map(kept).collect())
    }
}

/// Checks the endpoints of all upstreams that want it.
pub(crate) async fn check(control: Arc<Control>) {
    loop {
        let snapshot = control.shared.snapshot.load();
        let mut checks = JoinSet::new();
        for upstream in &snapshot.upstreams {
            match &upstream.health {
                Some(health) => {
                    let (upstream, health) = (Arc::clone(upstream), health.clone());
                    checks.spawn(check_upstream(Arc::clone(&control), upstream, health));
                }
                // There may have been checks before.
                None => upstream.endpoints.all.iter().for_each(|endpoint| {
                    endpoint.set_healthy(true);
                }),
            }
        }
        control.changed.notified().await;
    }
}

async fn check_upstream(control: Arc<Control>, upstream: Arc<Upstream>, health: Health) {
    let mut ticks = interval(health.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let mut checks = JoinSet::new();
        for endpoint in upstream.endpoints.all.iter().cloned() {
            let (control, upstream, health) =
                (Arc::clone(&control), Arc::clone(&upstream), health.clone());
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
                        None => control.event("healthy", format!("{what} passes its check again")),
                        Some(problem) => control.event(
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
