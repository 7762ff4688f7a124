//! Keeps copies of config maps in other namespaces.
//!
//! A config map with the label `redial.example/copy-to: NAMESPACE` is copied there, under the same name, and the copy is updated
//! with it.
//! A watch feeds the queue, a reflector is the cache that the work reads, and the pool writes with server-side apply.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures::{TryStreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use redial_core::admit::RateRule;
use redial_core::decide::{Class, Failure, Outcome};
use redial_core::{Preset, Rate};
use redial_queue::{Reconciled, Reconciler, WorkEvent, WorkQueue};

const LABEL: &str = "redial.example/copy-to";
const MANAGER: &str = "redial-kube-controller";

type Key = ObjectRef<ConfigMap>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::try_default().await?;
    let queue: WorkQueue<Key> = WorkQueue::default();
    let (cache, writer) = reflector::store();

    let config = watcher::Config::default().labels(LABEL);
    let events = watcher(Api::<ConfigMap>::all(client.clone()), config);
    let changed = events.default_backoff().reflect(writer).touched_objects();
    let feed = tokio::spawn({
        let queue = queue.clone();
        async move {
            pin_mut!(changed);
            loop {
                match changed.try_next().await {
                    Ok(Some(object)) => {
                        queue.add(ObjectRef::from_obj(&object)).await;
                    }
                    Ok(None) => return,
                    Err(error) => eprintln!("the watch continues after an error: {error}"),
                }
            }
        }
    });

    // 20 workers, and at most 50 writes a second in total.
    let pool = Reconciler::new(queue.clone(), Preset::ControlPlane.into())
        .workers(20)
        .rate(&RateRule::new(Rate::per_second(50), 100))
        .watch(log);
    let pool = Arc::new(pool);
    let running = tokio::spawn(Arc::clone(&pool).run(move |key, _| {
        let (client, cache) = (client.clone(), cache.clone());
        async move { reconcile(client, &cache, &key).await }
    }));

    tokio::signal::ctrl_c().await?;
    feed.abort();
    let left = queue.drain().await;
    running.await?;
    let stats = pool.stats();
    println!("{} done, retries {:?}, not done: {left:?}", stats.done, stats.work.retries);
    Ok(())
}

/// Reconciles one copy. The cache is read when the work runs, not when the event arrives: ten events are one run, with the latest
/// state.
async fn reconcile(client: Client, cache: &Store<ConfigMap>, key: &Key) -> Reconciled {
    let Some(object) = cache.get(key) else {
        // It was deleted, or has lost its label. Its copy stays; a finalizer could remove it.
        return Reconciled::Done;
    };
    let Some(namespace) = object.labels().get(LABEL) else { return Reconciled::Done };
    let name = object.name_any();
    let source = format!("{}.{name}", key.namespace.as_deref().unwrap_or_default());
    let copy = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some(BTreeMap::from([("redial.example/copy-of".to_owned(), source)])),
            ..ObjectMeta::default()
        },
        data: object.data.clone(),
        binary_data: object.binary_data.clone(),
        ..ConfigMap::default()
    };
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let params = PatchParams::apply(MANAGER).force();
    match api.patch(&name, &params, &Patch::Apply(&copy)).await {
        // Changes of the copy are not watched, so check it again later.
        Ok(_) => Reconciled::After(Duration::from_secs(300)),
        Err(error) => Reconciled::Failed(failure(&error)),
    }
}

/// The API server's status decides whether to retry: 429 and 503 are retried, 403 is not. A missing namespace may still be
/// created, and a conflict is over by the next attempt, so 404 and 409 are retried too.
fn failure(error: &kube::Error) -> Failure {
    let transient = Failure::new(Class::Transient);
    match error {
        kube::Error::Api(status) if matches!(status.code, 404 | 409) => transient.code(status.code),
        kube::Error::Api(status) => match Outcome::of_status(status.code) {
            Outcome::Failure(failure) => failure,
            _ => transient,
        },
        _ => transient,
    }
}

fn log(event: &WorkEvent<'_, Key>) {
    match event {
        WorkEvent::Retry { item, attempt, wait, cause, trend, .. } => {
            println!("{item}: {cause}, {attempt} in a row ({trend:?}), again in {wait:.1?}");
        }
        WorkEvent::Postponed { item, stop: Some(stop), wait, .. } => {
            println!("{item}: stopped ({}), rests for {wait:.1?}", stop.name());
        }
        WorkEvent::Done { item, attempt: attempt @ 2.., .. } => {
            println!("{item}: recovered after {} failures", attempt - 1);
        }
        _ => {}
    }
}
