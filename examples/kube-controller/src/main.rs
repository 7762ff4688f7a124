//! Keeps copies of config maps in other namespaces.
//!
//! A config map with the label `redial.example/copy-to: NAMESPACE` is copied there, under the same name, and the copy follows it.
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
                    Err(error) => eprintln!("the watch goes on after {error}"),
                }
            }
        }
    });

    // 20 workers, and 50 writes a second in all, whatever goes wrong.
    let pool = Reconciler::new(queue.clone(), Preset::ControlPlane.into())
        .workers(20)
        .rate(&RateRule::new(Rate::per_second(50), 100))
        .watch(say);
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
    println!("{} done, retries {:?}, not done: {left:?}", stats.done, stats.retries);
    Ok(())
}

/// Makes one copy right. The cache is read when the work runs, not when the event came: ten events are one run, on the last
/// state.
async fn reconcile(client: Client, cache: &Store<ConfigMap>, key: &Key) -> Reconciled {
    let Some(object) = cache.get(key) else {
        // It is gone, or has lost its label. Its copy stays; a finalizer would be the place to remove it.
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
        // Nobody tells us when somebody changes the copy, so look again.
        Ok(_) => Reconciled::After(Duration::from_secs(300)),
        Err(error) => Reconciled::Failed(failure(&error)),
    }
}

/// What the API server says decides whether it is worth another try: 429 and 503 are, 403 is not. A namespace that is
/// missing may be made yet, and a conflict is over by the next time, so 404 and 409 are.
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

fn say(event: &WorkEvent<'_, Key>) {
    match event {
        WorkEvent::Retry { item, attempt, wait, cause, trend, .. } => {
            println!("{item}: {cause}, {attempt} in a row ({trend:?}), again in {wait:.1?}");
        }
        WorkEvent::Postponed { item, stop: Some(stop), wait, .. } => {
            println!("{item}: stopped ({}), rests for {wait:.1?}", stop.name());
        }
        WorkEvent::Done { item, attempt: attempt @ 2.., .. } => {
            println!("{item}: right after {} failures", attempt - 1);
        }
        _ => {}
    }
}
