use serde_json::{Value, json};

use crate::visitor::Site;

#[test]
fn the_quiz_keeps_its_answers_until_one_is_chosen() {
    let site = Site::open();
    let about = site.get("/exercise");
    let questions = about.json()["questions"].as_array().unwrap().clone();
    assert_eq!(questions.len(), 4);
    assert!(!about.body.contains("right") && !about.body.contains("explanation"));
    for (question, right) in [(0, 2), (1, 1), (2, 2), (3, 1)] {
        for option in 0..4 {
            let judged =
                site.post("/exercise/answer", &json!({ "question": question, "option": option }));
            let judged = judged.json();
            assert_eq!(judged["is_right"], option == right, "{question} {option}");
            assert!(judged["explanation"].as_str().unwrap().len() > 40);
        }
    }
    let wrong = site.post("/exercise/answer", &json!({ "question": 9, "option": 0 }));
    assert_eq!((wrong.status, wrong.error().as_str()), (400, "question has to be from 0 to 3"));
}

/// The policies of docs/payment-exercise.md.
fn documented(kind: &str) -> String {
    let page = include_str!("../../../../docs/payment-exercise.md");
    let start = format!("```toml {kind}\n");
    let text = page.split_once(&start).unwrap().1;
    text.split_once("```").unwrap().0.to_owned()
}

fn score(site: &Site, toml: &str) -> Value {
    let response = site.post("/exercise/score", &json!({ "toml": toml }));
    assert_eq!(response.status, 200, "{}", response.body);
    response.json()
}

#[test]
fn the_model_answer_is_excellent_and_the_start_misses_every_point() {
    let site = Site::open();
    let model = score(&site, &documented("good"));
    assert_eq!(
        (&model["scores"][0]["met"], &model["scores"][0]["grade"]),
        (&json!(5), &json!("excellent"))
    );
    assert_eq!(model["remarks"], json!([]));
    let start = site.get("/exercise").json()["start"].as_str().unwrap().to_owned();
    assert_eq!(start, documented("bad"), "the page of the docs shows the same policy");
    let start = score(&site, &start);
    assert_eq!(start["scores"][0]["met"], 0);
    assert_eq!(start["remarks"].as_array().unwrap().len(), 5);
    let jitter = &start["scores"][0]["points"][2];
    assert_eq!((&jitter["name"], &jitter["line"]), (&json!("full-jitter"), &json!(9)));
}

#[test]
fn a_text_that_cannot_be_read_has_no_score() {
    let site = Site::open();
    let answer = score(&site, "[policy.payments]\nattempts = \"four\"\n");
    assert_eq!((&answer["scores"], &answer["remarks"][0]["line"]), (&json!([]), &json!(2)));
}

#[test]
fn the_tables_of_the_lesson_follow_its_own_code() {
    let site = Site::open();
    let table = site.get("/exercise/backoff?base_ms=100&cap_ms=2000&retries=6").json();
    let column = |name: &str| -> Vec<f64> {
        table["rows"].as_array().unwrap().iter().map(|row| row[name].as_f64().unwrap()).collect()
    };
    assert_eq!(column("ceiling_ms"), [100.0, 200.0, 400.0, 800.0, 1600.0, 2000.0]);
    assert_eq!(column("uncapped_ms")[5], 3200.0);
    assert_eq!(column("expected_ms")[2], 200.0);
    let three = site.get("/exercise/backoff?base_ms=100&cap_ms=2000&retries=3").json();
    assert_eq!((&three["expected_ms"], &three["fixed_ms"]), (&json!(350.0), &json!(700.0)));

    let budget = site.get("/exercise/budget?multiplier=1.1").json();
    assert_eq!(budget["ratio"], 0.1);
    assert!((budget["share"].as_f64().unwrap() - 0.0909).abs() < 1e-4);
    assert_eq!(site.get("/exercise/budget?multiplier=9").status, 400);

    let four = site.get("/exercise/amplification?rate=500&retries=3").json();
    assert_eq!((&four["multiplier"], &four["amplified"]), (&json!(4), &json!(2000.0)));
    let simulated = four["simulated"].as_f64().unwrap();
    assert!((3.5..5.0).contains(&simulated), "{simulated}");
    assert!(four["with_budget"].as_f64().unwrap() < simulated);
    assert!(site.get("/exercise/amplification?rate=0&retries=3").error().contains("from 1"));
}
