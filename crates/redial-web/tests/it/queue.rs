//! The queue's part of the API, over a real store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redial_queue::durable::{Claim, Job, JobId, JobVerdict, NewJob, Settlement, State, Store};
use redial_queue::sqlite::SqliteStore;
use redial_web::App;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::page::{Page, Response};

struct Shop {
    page: Page,
    store: Arc<SqliteStore>,
    runtime: Runtime,
    folder: std::path::PathBuf,
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Shop {
    fn new() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("queue-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let store = Arc::new(SqliteStore::open(folder.join("queue.db")).unwrap());
        let app = App { store: Some(Arc::clone(&store) as Arc<dyn Store>), ..App::default() };
        Self { page: Page::new(app), store, runtime: Runtime::new().unwrap(), folder }
    }

    fn add(&self, job: NewJob) -> JobId {
        self.runtime.block_on(self.store.enqueue("orders", vec![job])).unwrap()[0].id()
    }

    /// Enqueues a job and gives it up.
    fn dead(&self, job: NewJob, reason: &str, outcome: &str) -> JobId {
        let id = self.add(job);
        let claim = Claim { queue: "orders".into(), most: 1, lease: Duration::from_secs(600) };
        self.runtime.block_on(async {
            let claimed = self.store.claim(&claim).await.unwrap().jobs.remove(0);
            assert_eq!(claimed.job.id, id);
            let settlement = Settlement {
                lease: claimed.lease,
                verdict: JobVerdict::Dead { reason: reason.to_owned() },
                took: Duration::from_millis(1500),
                outcome: outcome.to_owned(),
            };
            self.store.settle(vec![settlement]).await.unwrap();
        });
        id
    }

    fn job(&self, id: JobId) -> Job {
        self.runtime.block_on(self.store.get(id)).unwrap().unwrap()
    }

    fn get(&self, path: &str) -> Response {
        let (host, bearer) = (self.page.host(), self.page.bearer());
        self.page.raw(&format!("GET /api/queue{path}"), &[&host, &bearer], b"")
    }

    fn post(&self, path: &str, body: &Value) -> Response {
        let (host, bearer) = (self.page.host(), self.page.bearer());
        let headers = [host.as_str(), &bearer, "Content-Type: application/json"];
        self.page.raw(&format!("POST /api/queue{path}"), &headers, body.to_string().as_bytes())
    }

    fn json(&self, path: &str) -> Value {
        json_of(&self.get(path))
    }
}

fn json_of(response: &Response) -> Value {
    assert_eq!(response.status, 200, "{}", response.body);
    serde_json::from_str(&response.body).unwrap()
}

fn ids(list: &Value) -> Vec<i64> {
    list["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_i64().unwrap()).collect()
}

#[test]
fn counts_and_rates_of_each_queue() {
    let shop = Shop::new();
    assert_eq!(shop.json("")["queues"], json!([]));
    shop.dead(NewJob::new("x"), "attempts", "503");
    shop.add(NewJob::new("y"));
    let overview = shop.json("");
    let orders = &overview["queues"][0];
    assert_eq!(
        (&orders["name"], &orders["due"], &orders["dead"]),
        (&json!("orders"), &json!(1), &json!(1))
    );
    assert_eq!((&orders["enqueued"], &orders["died"]), (&json!(2), &json!(1)));
    assert_eq!(orders["rates"], json!([]), "one look has no rate");
}

#[test]
fn rows_come_in_pages() {
    let shop = Shop::new();
    let all: Vec<i64> = (0..25).map(|n| shop.add(NewJob::new(format!("{n}"))).0).collect();
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = shop.json(&format!("/jobs?most=10{after}"));
        seen.extend(ids(&page));
        match page["next"].as_i64() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, all);
    assert_eq!(ids(&shop.json("/jobs?most=100000")).len(), 25);
    for (query, said) in
        [("state=lost", "none of waiting, held"), ("ids=1,x", "not a number"), ("most=-1", "most")]
    {
        let wrong = shop.get(&format!("/jobs?{query}"));
        assert!(wrong.status == 400 && wrong.body.contains(said), "{query}: {}", wrong.body);
    }
}

#[test]
fn a_payload_is_text_or_hexadecimal_and_bounded() {
    let shop = Shop::new();
    let view = |payload: &[u8]| {
        let id = shop.add(NewJob::new(payload));
        (shop.json(&format!("/jobs/{id}"))["payload"].clone(), id)
    };
    assert_eq!(view("grüß".as_bytes()).0, json!({ "bytes": 6, "cut": false, "text": "grüß" }));
    assert_eq!(view(&[0xff, 0, 1]).0, json!({ "bytes": 3, "cut": false, "hex": "ff0001" }));
    assert_eq!(view(b"").0, json!({ "bytes": 0, "cut": false, "text": "" }));
    let (large, id) = view("é".repeat(1 << 20).as_bytes());
    assert_eq!((&large["bytes"], &large["cut"]), (&json!(2 << 20), &json!(true)));
    assert_eq!(large["text"].as_str().unwrap().len(), 256 << 10);
    let row = shop.json(&format!("/jobs?ids={id}"))["jobs"][0]["payload"].clone();
    assert_eq!(row["text"].as_str().unwrap().len(), 200);
    assert_eq!(shop.get("/jobs/999999").status, 404);
}

#[test]
fn dead_letters_are_grouped_and_previewed() {
    let shop = Shop::new();
    for (reason, outcome) in [("attempts", "503"), ("attempts", "503"), ("permanent", "404")] {
        shop.dead(NewJob::new("x"), reason, outcome);
    }
    let groups = shop.json("/groups");
    let shown =
        |at: usize| (groups["groups"][at]["outcome"].clone(), groups["groups"][at]["jobs"].clone());
    assert_eq!((shown(0), shown(1)), ((json!("503"), json!(2)), (json!("404"), json!(1))));
    let preview = json_of(&shop.post("/preview", &json!({ "reason": "attempts" })));
    assert_eq!((&preview["count"], ids(&preview).len()), (&json!(2), 2));
    let alive = shop.post("/preview", &json!({ "state": "waiting" }));
    assert!(alive.status == 400 && alive.body.contains("only dead letters"), "{}", alive.body);
}

#[test]
fn a_redrive_is_paced() {
    let shop = Shop::new();
    let letters: Vec<_> = (0..3).map(|_| shop.dead(NewJob::new("x"), "attempts", "503")).collect();
    let other = shop.dead(NewJob::new("x"), "permanent", "404");
    let ask = |expected: u64| json!({ "which": { "reason": "attempts" }, "expected": expected, "per_second": 0.1, "delay_ms": 60_000 });
    let refused = shop.post("/redrive", &ask(4));
    assert_eq!(refused.status, 409);
    assert!(refused.body.contains("3 dead letters match now, not 4"), "{}", refused.body);
    assert!(letters.iter().all(|id| shop.job(*id).state == State::Dead));
    let done = json_of(&shop.post("/redrive", &ask(3)));
    assert_eq!(done, json!({ "redriven": 3, "last_starts_in_ms": 80_000 }));
    let dues: Vec<_> = letters.iter().map(|id| shop.job(*id).due).collect();
    for pair in dues.windows(2) {
        assert_eq!(pair[1].duration_since(pair[0]).unwrap(), Duration::from_secs(10));
    }
    assert_eq!(shop.job(other).state, State::Dead);
    for rate in [json!(0), json!(-1), json!(1e9)] {
        let ask = json!({ "which": {}, "expected": 1, "per_second": rate });
        let wrong = shop.post("/redrive", &ask);
        assert!(wrong.status == 400 && wrong.body.contains("per_second"), "{}", wrong.body);
    }
}

#[test]
fn a_purge_takes_what_was_seen_or_nothing() {
    let shop = Shop::new();
    for _ in 0..3 {
        shop.dead(NewJob::new("x"), "attempts", "503");
    }
    let purge = |expected: u64| shop.post("/purge", &json!({ "which": {}, "expected": expected }));
    let refused = purge(2);
    assert_eq!(refused.status, 409);
    assert!(refused.body.contains("3 dead letters match now, not 2"), "{}", refused.body);
    assert_eq!(shop.json("")["queues"][0]["dead"], 3);
    assert_eq!(json_of(&purge(3)), json!({ "purged": 3 }));
    assert_eq!(shop.json("")["queues"][0]["dead"], 0);
}

#[test]
fn an_edit_changes_what_it_names_and_keeps_secrets() {
    let shop = Shop::new();
    let job = NewJob::new("old")
        .header("Authorization", "Bearer s3cret")
        .header("X-Trace", "1")
        .policy("patient");
    let id = shop.dead(job, "permanent", "400");
    let path = format!("/jobs/{id}");
    let view = shop.get(&path);
    assert!(!view.body.contains("s3cret"), "{}", view.body);
    let headers =
        json!([{ "name": "Authorization", "value": null }, { "name": "X-Trace", "value": "2" }]);
    json_of(&shop.post(&path, &json!({ "headers": headers, "priority": 7, "policy": "" })));
    let job = shop.job(id);
    let kept = [("Authorization", "Bearer s3cret"), ("X-Trace", "2")]
        .map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(
        (job.headers.as_slice(), job.payload.as_slice()),
        (kept.as_slice(), b"old".as_slice())
    );
    assert_eq!((job.priority.level(), job.policy), (7, None));
    json_of(&shop.post(&path, &json!({ "payload_hex": "ff 00\n0A" })));
    assert_eq!(shop.job(id).payload, [0xff, 0, 10]);
    for (edit, said) in [
        (json!({ "payload_hex": "f" }), "two make a byte"),
        (json!({ "payload_hex": "zz" }), "not a hexadecimal digit"),
        (json!({ "payload_hex": "", "payload_text": "" }), "send one of them"),
        (json!({ "priority": 8 }), "from 0 to 7"),
        (json!({ "headers": [{ "name": "", "value": "x" }] }), "no name"),
        (json!({ "headers": [{ "name": "X", "value": null }] }), "X has no value"),
        (json!({ "headers": [{ "name": ":url", "value": "no url" }] }), ""),
    ] {
        let wrong = shop.post(&path, &edit);
        assert!(wrong.status == 400 && wrong.body.contains(said), "{edit}: {}", wrong.body);
    }
}

#[test]
fn a_queue_is_paused_and_resumed() {
    let shop = Shop::new();
    shop.add(NewJob::new("x"));
    for paused in [true, false] {
        json_of(&shop.post("/pause", &json!({ "queue": "orders", "paused": paused })));
        assert_eq!(shop.json("")["queues"][0]["paused"], paused);
    }
    let unknown = shop.post("/pause", &json!({ "queue": "nowhere", "paused": true }));
    assert!(unknown.status == 404 && unknown.body.contains("no queue"), "{}", unknown.body);
}

#[test]
fn without_a_store_there_is_no_queue() {
    let page = Page::new(App::default());
    let (host, bearer) = (page.host(), page.bearer());
    let response = page.raw("GET /api/queue", &[&host, &bearer], b"");
    assert!(response.status == 404 && response.body.contains("no queue"), "{}", response.body);
}
