//! Sliders begin where the scenario of their story is: the number is written in both.

use redial_sim::scenario::BuiltIn;
use serde_json::Value;

use crate::visitor::Site;

#[test]
fn sliders_begin_where_their_scenario_is() {
    let about = Site::open().get("/playground").json();
    let mut checked = 0;
    for story in about["stories"].as_array().unwrap() {
        let text = |field: &str| story[field].as_str().unwrap();
        let scenario = BuiltIn::find(text("scenario")).unwrap().read(&[]).unwrap();
        let policy = &scenario.policy[text("shaped")];
        let (start, end) = scenario.fault_span().unwrap();
        let callers = scenario.clients.arrivals.callers();
        for slider in story["sliders"].as_array().unwrap() {
            let default = &slider["default"];
            let expected = match slider["name"].as_str().unwrap() {
                "traffic" => scenario.rate().unwrap(),
                "clients" => f64::from(callers.unwrap_or(scenario.clients.instances)),
                // Servers are whole, so that it is not exact.
                "load" => (scenario.rate().unwrap() / scenario.backend.capacity() * 100.0).round(),
                "outage" => (end - start).as_millis_f64(),
                "attempts" => f64::from(policy.attempts()),
                "timeout" => policy.attempt_timeout_limit().span().unwrap().as_millis_f64(),
                "budget" => policy.budget().ratio().unwrap_or(0.0) * 100.0,
                _ => continue,
            };
            assert_eq!(*default, Value::from(expected), "{}: {slider}", story["name"]);
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked}");
}
