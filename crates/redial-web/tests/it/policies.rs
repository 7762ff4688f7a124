use serde_json::json;

use crate::visitor::Site;

#[test]
fn without_a_sidecar_the_presets_are_shown() {
    let site = Site::open();
    let answer = site.get("/policies").json();
    assert_eq!(answer["is_file"], false);
    let policies = answer["policies"].as_array().unwrap();
    assert_eq!(policies.len(), redial_core::Preset::ALL.len());
    let standard = &policies[0];
    assert_eq!((&standard["name"], &standard["remarks"]), (&json!("standard"), &json!([])));
    let about =
        "4 attempts · waits of 100 ms to 400 ms · full jitter · a budget that successes pay for";
    assert_eq!(standard["about"], about);
}

#[test]
fn a_change_is_simulated_before_and_after() {
    let site = Site::open();
    let policies = site.get("/policies").json()["policies"].clone();
    for policy in policies.as_array().unwrap() {
        let before = policy["toml"].as_str().unwrap();
        let after = format!("{before}\n");
        let both =
            json!([{ "name": "before", "toml": before }, { "name": "after", "toml": after }]);
        let ask = json!({ "story": "collapse", "policies": both, "quality": "coarse" });
        let answer = site.post("/simulate", &ask).json();
        let figures = |at: usize| answer["policies"][at]["result"]["figures"].clone();
        assert!(figures(0)["success"].is_number(), "{}: {answer}", policy["name"]);
        assert_eq!(figures(0), figures(1), "the printed policy is the same policy");
    }
}
