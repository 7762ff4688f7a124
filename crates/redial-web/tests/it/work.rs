//! More work than the machine has time for: it is refused before it begins, or can be cancelled.

use serde_json::{Value, json};

use crate::visitor::Site;

/// A policy that repeats at once, so often.
fn hasty(name: &str, attempts: u32) -> Value {
    let toml = format!(
        "attempts = {attempts}\nattempt_timeout = \"150ms\"\ndeadline = \"none\"\nbudget = \"none\"\n\
         backoff = {{ base = \"1ns\", cap = \"1ns\", jitter = \"none\" }}\nhedge = \"none\"\nstall = \"none\"\n"
    );
    json!({ "name": name, "toml": toml })
}

#[test]
fn too_much_work_is_refused_with_what_to_reduce() {
    let site = Site::open();
    let asks = [
        // Many calls, many policies, and many attempts.
        (json!({ "kind": "exact", "runs": 100, "ask": { "story": "collapse" } }), "fewer runs"),
        (
            json!({ "kind": "map", "ask": {
                "story": "collapse",
                "policies": [hasty("a", 200), hasty("b", 200), hasty("c", 100), hasty("d", 3)],
            } }),
            "use less traffic or fewer policies, or fewer attempts than the 200 of a",
        ),
        (
            json!({ "kind": "exact", "runs": 1, "ask": {
                "story": "collapse", "policies": [hasty("a", 65_535)],
            } }),
            "fewer attempts than the 65535 of a",
        ),
        (
            json!({ "kind": "exact", "runs": 1, "ask": {
                "story": "collapse", "policies": [{ "name": "peer:tenacity" }],
            } }),
            "fewer attempts than the 65535 of peer:tenacity",
        ),
    ];
    for (ask, advice) in asks {
        let refused = site.post("/runs", &ask);
        assert_eq!(refused.status, 400, "{ask}: {}", refused.body);
        let why = refused.error();
        assert!(why.contains("more than 1G attempts are too many for one request"), "{ask}: {why}");
        assert!(why.contains(advice), "{ask}: {why}");
    }
    // The same holds for an answer that a visitor waits for.
    let ask = |policy: Value| json!({ "story": "collapse", "policies": [policy] });
    for path in ["/simulate", "/simulate/svg", "/simulate/json"] {
        let refused = site.post(path, &ask(json!({ "name": "peer:tenacity" })));
        assert_eq!(refused.status, 400, "{path}: {}", refused.body);
        assert!(refused.error().contains("use less traffic, or fewer attempts"), "{path}");
    }
    // Endless, too, but its waits grow.
    let cenkalti = site.post("/simulate", &ask(json!({ "name": "peer:cenkalti" })));
    assert_eq!(cenkalti.status, 200, "{}", cenkalti.body);
}

#[test]
fn every_peer_is_simulated_or_refused() {
    let site = Site::open();
    let about = site.get("/playground").json();
    let names = about["policies"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap());
    let refused: Vec<String> = names
        .filter(|name| {
            let ask =
                json!({ "story": "collapse", "policies": [{ "name": name }], "quality": "coarse" });
            site.post("/simulate", &ask).status != 200
        })
        .map(str::to_owned)
        .collect();
    assert_eq!(refused, ["peer:tenacity"]);
}

#[test]
fn a_cancelled_run_makes_way_for_the_next() {
    let site = Site::open();
    let long = json!({ "kind": "exact", "runs": 30, "ask": { "story": "collapse" } });
    let small = json!({ "story": "collapse", "sliders": { "traffic": 1000, "clients": 10 } });
    let start = |run: &Value| site.post("/runs", run).json()["id"].as_u64().unwrap();
    let (first, second) =
        (start(&long), start(&json!({ "kind": "exact", "runs": 1, "ask": small })));
    let status = |id: u64| site.get(&format!("/runs/{id}")).json();
    // It is being computed.
    while status(first)["progress"] == 0.0 {}
    assert_eq!(status(second)["progress"], 0.0, "the second waits for the first");
    site.post(&format!("/runs/{first}/cancel"), &json!({}));
    while status(second)["state"] == "running" {}
    assert_eq!(status(second)["state"], "done");
    let first = status(first);
    assert_eq!(first["state"], "cancelled");
    let progress = first["progress"].as_f64().unwrap();
    assert!(progress < 1.0, "the second was computed because the first had stopped: {progress}");
}
