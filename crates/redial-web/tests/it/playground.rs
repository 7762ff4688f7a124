use serde_json::{Value, json};

use crate::visitor::Site;

fn simulate(site: &Site, ask: Value) -> Value {
    let response = site.post("/simulate", &ask);
    assert_eq!(response.status, 200, "{}", response.body);
    response.json()
}

fn policy<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let all = answer["policies"].as_array().unwrap();
    all.iter().find(|policy| policy["name"] == name).unwrap()
}

#[test]
fn it_opens_on_the_collapse() {
    let site = Site::open();
    let answer = simulate(&site, json!({ "story": "collapse" }));
    let figures = |name| &policy(&answer, name)["result"]["figures"];
    assert_eq!(figures("loop")["collapsed"], true);
    assert!(figures("loop")["amplification"].as_f64().unwrap() > 5.0);
    assert_eq!(figures("standard")["collapsed"], false);
    assert!(figures("standard")["amplification"].as_f64().unwrap() < 1.1);
    let sentence = answer["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("does not recover") && sentence.contains("standard sends 1.0"),
        "{sentence}"
    );
    assert_eq!(answer["bands"], json!([{ "from_ms": 4000.0, "to_ms": 5000.0, "label": "down" }]));
    assert!((answer["capacity"].as_f64().unwrap() / 1_428_571.0 - 1.0).abs() < 0.01);
    let curves = &policy(&answer, "loop")["result"]["curves"];
    let attempts = curves["attempts"].as_array().unwrap();
    assert_eq!((attempts.len(), answer["point_ms"].as_f64()), (200, Some(100.0)));
    let at_end = attempts[190].as_f64().unwrap();
    assert!(at_end > 5e6, "the storm stays: {at_end}");
    let caption = policy(&answer, "loop")["result"]["caption"].as_str().unwrap();
    assert!(caption.starts_with("cohorts · ") && caption.ends_with(" ms"), "{caption}");
    let caption = policy(&answer, "standard")["result"]["caption"].as_str().unwrap();
    assert!(caption.starts_with("1:200 model · "), "{caption}");
}

#[test]
fn the_steps_of_the_tour_show_what_they_say() {
    let site = Site::open();
    let about = site.get("/playground").json();
    let steps = about["tour"].as_array().unwrap();
    let collapses = |step: &Value, name: &str| {
        let sliders = step["sliders"].as_array().unwrap().iter();
        let sliders: serde_json::Map<String, Value> =
            sliders.map(|it| (it[0].as_str().unwrap().to_owned(), it[1].clone())).collect();
        let answer = simulate(&site, json!({ "story": "collapse", "sliders": sliders }));
        policy(&answer, name)["result"]["figures"]["collapsed"].as_bool().unwrap()
    };
    let looped: Vec<bool> = steps.iter().map(|step| collapses(step, "loop")).collect();
    assert_eq!(looped, [true, true, false, true]);
    assert!(!steps.iter().any(|step| collapses(step, "standard")));
}

#[test]
fn every_story_can_be_told_at_the_ends_of_its_sliders() {
    let site = Site::open();
    let about = site.get("/playground").json();
    for story in about["stories"].as_array().unwrap() {
        let name = &story["name"];
        let mut settings = vec![json!({})];
        for slider in story["sliders"].as_array().unwrap() {
            let ends = match slider["kind"].as_str().unwrap() {
                "number" => vec![slider["least"].clone(), slider["most"].clone()],
                _ => slider["options"].as_array().unwrap().clone(),
            };
            let slider = slider["name"].as_str().unwrap();
            settings.extend(ends.into_iter().map(|end| json!({ slider: end })));
        }
        for sliders in settings {
            let ask = json!({ "story": name, "sliders": sliders, "quality": "coarse" });
            let answer = simulate(&site, ask);
            let all = answer["policies"].as_array().unwrap();
            let has_figures = |policy: &&Value| {
                policy["result"]["figures"]["amplification"].as_f64().is_some_and(|it| it > 0.0)
            };
            assert_eq!(all.iter().filter(has_figures).count(), 2, "{name} {sliders}: {all:?}");
        }
    }
}

#[test]
fn sliders_reach_a_hundred_million_calls_a_second_and_25_million_clients() {
    let about = Site::open().get("/playground").json();
    let stories = about["stories"].as_array().unwrap();
    let sliders = stories.iter().flat_map(|story| story["sliders"].as_array().unwrap());
    let most = |name: &str| -> Vec<f64> {
        let named = sliders.clone().filter(|slider| slider["name"] == name);
        named.map(|slider| slider["most"].as_f64().unwrap()).collect()
    };
    assert_eq!(most("traffic"), [1e8; 3]);
    assert_eq!(most("clients"), [25e6; 5]);
}

#[test]
fn a_policy_of_the_visitor_has_findings_with_places() {
    let site = Site::open();
    let toml = "attempts = 4\nbackoff = { jitter = \"none\" }\nbudget = \"none\"\n";
    let policies = json!([{ "name": "standard" }, { "name": "mine", "toml": toml }]);
    let answer = simulate(&site, json!({ "story": "collapse", "policies": policies }));
    let mine = policy(&answer, "mine");
    assert!(mine["result"].is_object());
    let remarks = mine["remarks"].as_array().unwrap();
    let find = |rule: &str| remarks.iter().find(|remark| remark["rule"] == rule).unwrap();
    assert_eq!((&find("no-jitter")["line"], &find("no-budget")["line"]), (&json!(2), &json!(3)));
    assert!(answer["command"].as_str().unwrap().contains("--policy mine.toml"));

    let policies = json!([{ "name": "standard" }, { "name": "mine", "toml": "attempts = 0" }]);
    let answer = simulate(&site, json!({ "story": "collapse", "policies": policies }));
    let mine = policy(&answer, "mine");
    assert_eq!((&mine["result"], &mine["remarks"][0]["line"]), (&Value::Null, &json!(1)));
    assert!(policy(&answer, "standard")["result"].is_object(), "the others are still simulated");
}

#[test]
fn a_wrong_request_is_told_what_is_allowed() {
    let site = Site::open();
    let cases = [
        (json!({ "story": "tale" }), "no story \"tale\", only collapse"),
        (
            json!({ "story": "collapse", "sliders": { "speed": 1 } }),
            "no slider \"speed\", only traffic",
        ),
        (json!({ "story": "collapse", "sliders": { "traffic": 1e12 } }), "from 1 to 100000000"),
        (
            json!({ "story": "collapse", "sliders": { "jitter": "some" } }),
            "one of none, equal, full",
        ),
        (json!({ "story": "collapse", "sliders": { "jitter": 3 } }), "one of none, equal, full"),
        (
            json!({ "story": "collapse", "policies": [{ "name": "x" }] }),
            "no policy is called \"x\"",
        ),
        (
            json!({ "story": "collapse", "policies": [{ "name": "../x", "toml": "" }] }),
            "1 to 40 letters",
        ),
        (
            json!({ "story": "collapse", "policies": [{ "name": "web" }, { "name": "web" }] }),
            "two policies",
        ),
        (
            json!({ "story": "collapse", "policies": vec![json!({ "name": "web" }); 5] }),
            "at most 4",
        ),
        (
            json!({ "story": "collapse", "policies": [{ "name": "m", "toml": "#".repeat(70_000) }] }),
            "longer than 64 kB",
        ),
    ];
    for (ask, message) in cases {
        let response = site.post("/simulate", &ask);
        assert_eq!(response.status, 400, "{ask}");
        assert!(response.error().contains(message), "{ask}: {}", response.error());
    }
    let response = site.request("POST", "/simulate", "{");
    assert_eq!(response.status, 400);
    assert!(!response.error().is_empty());
}

fn status(mut stream: std::net::TcpStream) -> String {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    text.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn a_newer_request_of_a_visitor_replaces_the_older_one() {
    let site = Site::open();
    let send = |ask: Value| site.send("POST", "/simulate", &ask.to_string());
    // Others before them take seconds, until they leave.
    let slow = ["peer:cenkalti", "peer:client-go", "peer:grpc", "peer:stamina"];
    let slow = slow.map(|name| json!({ "name": name }));
    let others = [(); 3].map(|()| send(json!({ "story": "collapse", "policies": slow })));
    let ask = |visitor: &str| send(json!({ "visitor": visitor, "story": "collapse" }));
    let (older, another, newer) = (ask("one"), ask("two"), ask("one"));
    // Answered after these were accepted.
    assert_eq!(site.get("/playground").status, 200);
    drop(others);
    assert_eq!([older, another, newer].map(status), ["409", "200", "200"]);
}

#[test]
fn a_longer_run_that_is_refused_leaves_the_others_alone() {
    let site = Site::open();
    let ask = json!({ "story": "collapse" });
    let start = || site.post("/runs", &json!({ "kind": "map", "ask": ask }));
    let mut ids = Vec::new();
    let refused = loop {
        let response = start();
        if response.status != 200 {
            break response;
        }
        ids.push(response.json()["id"].as_u64().unwrap());
        assert!(ids.len() < 1000, "runs are bounded");
    };
    assert_eq!(refused.status, 503, "{}", refused.body);
    for id in &ids[ids.len().saturating_sub(8)..] {
        let state = site.get(&format!("/runs/{id}")).json()["state"].clone();
        assert!(state == "running" || state == "done", "{id}: {state}");
    }
    assert_eq!(site.get(&format!("/runs/{}", ids.last().unwrap() + 1)).status, 404);
    for id in ids {
        site.post(&format!("/runs/{id}/cancel"), &json!({}));
    }
}

#[test]
fn more_requests_than_can_wait_are_refused() {
    let site = Site::open();
    let body = json!({ "story": "collapse" }).to_string();
    let sent: Vec<_> = (0..40).map(|_| site.send("POST", "/simulate", &body)).collect();
    let answers = sent.into_iter().map(|mut stream| {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
        text
    });
    let refused = answers.filter(|text| text.starts_with("HTTP/1.1 503")).collect::<Vec<_>>();
    assert!(!refused.is_empty());
    assert!(refused[0].contains("too many simulations are waiting"), "{}", refused[0]);
}

#[test]
fn results_can_be_saved() {
    let site = Site::open();
    let ask = json!({ "story": "waves" });
    let svg = site.post("/simulate/svg", &ask);
    assert!(svg.headers.contains("content-disposition: attachment; filename=\"redial-sim.svg\""));
    assert!(svg.body.starts_with("<svg ") && svg.body.contains("full"));
    let report = site.post("/simulate/json", &ask).json();
    assert_eq!(
        (&report["scenario"], report["results"].as_array().unwrap().len()),
        (&json!("blip-synchronised"), 2)
    );
    assert!(report["results"][0]["series"]["attempts"].is_array());
}

fn result_of(site: &Site, id: &Value) -> Value {
    loop {
        let status = site.get(&format!("/runs/{id}")).json();
        if status["state"] != "running" {
            return status;
        }
        let progress = status["progress"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&progress));
        std::thread::yield_now();
    }
}

#[test]
fn a_longer_run_follows_every_call() {
    let site = Site::open();
    let ask = json!({ "story": "collapse", "sliders": { "traffic": 1000, "clients": 10 } });
    let started = site.post("/runs", &json!({ "kind": "exact", "ask": ask, "runs": 3 })).json();
    let status = result_of(&site, &started["id"]);
    assert_eq!((&status["state"], &status["progress"]), (&json!("done"), &json!(1.0)));
    let figures = &policy(&status["result"], "loop")["result"]["figures"];
    assert_eq!((&figures["runs"], &figures["collapse"][0]), (&json!(3), &json!(1.0)));
    assert!(status["result"]["command"].as_str().unwrap().ends_with("--runs 3 --engine exact"));
}

#[test]
fn a_longer_run_is_bounded_and_can_be_cancelled() {
    let site = Site::open();
    let start = |sliders: Value, kind: &str, runs: u32| {
        let ask = json!({ "story": "collapse", "sliders": sliders });
        site.post("/runs", &json!({ "kind": kind, "ask": ask, "runs": runs }))
    };
    assert!(start(json!({}), "exact", 1000).error().contains("from 1 to 100"));
    let many = json!({ "traffic": 90_000, "clients": 100_000 });
    assert!(start(many, "exact", 1).error().contains("too many for an exact run"));
    assert!(start(json!({}), "exact", 100).error().contains("too many for one request"));
    let started = start(json!({}), "map", 1).json();
    let id = &started["id"];
    assert_eq!(site.post(&format!("/runs/{id}/cancel"), &json!({})).json()["state"], "cancelled");
    assert_eq!(result_of(&site, id)["state"], "cancelled");
    assert_eq!(site.get("/runs/999").status, 404);
}

#[test]
fn the_map_shows_where_the_loop_collapses_and_standard_does_not() {
    let site = Site::open();
    let ask = json!({ "story": "collapse", "sliders": { "traffic": 1000, "clients": 10 } });
    let started = site.post("/runs", &json!({ "kind": "map", "ask": ask })).json();
    let status = result_of(&site, &started["id"]);
    let map = &status["result"];
    let width = map["x"]["values"].as_array().unwrap().len();
    let cells = |name: &str| policy(map, name)["cells"].as_array().unwrap().clone();
    assert_eq!(cells("loop").len(), width * map["y"]["values"].as_array().unwrap().len());
    let collapses = |name: &str| {
        cells(name).iter().filter(|cell| cell["collapse"].as_f64().unwrap() > 0.5).count()
    };
    assert!(collapses("loop") > width, "{}", collapses("loop"));
    assert_eq!(collapses("standard"), 0);
}
