//! Policies in the documentation are policies.

use redial::Policy;

/// The fenced blocks of TOML.
fn blocks(page: &str) -> Vec<&str> {
    let fenced = page.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| block.strip_prefix("toml\n")).collect()
}

fn read(text: &str) -> Policy {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_page_on_policies_shows_every_field_at_its_default() {
    let page = include_str!("../../docs/policy.md");
    let [standard, guards, ..] = blocks(page)[..] else { panic!("two policies are shown") };
    assert_eq!(read(standard), Policy::standard());
    let read = serde_json::to_value(read(guards)).unwrap();
    let shown = |key: &&String| page.contains(key.as_str());
    let fields = read.as_object().unwrap();
    assert!(fields.keys().all(|key| shown(&key)), "{fields:?}");
    assert_eq!(
        read["breaker"],
        serde_json::to_value(redial::admit::BreakerRule::default()).unwrap()
    );
}

#[test]
fn the_page_on_clients_shows_three_timeouts() {
    let [timeouts] = blocks(include_str!("../../docs/http-clients.md"))[..] else {
        panic!("one policy is shown")
    };
    let timeouts = read(timeouts);
    assert!(timeouts.connect_timeout().unwrap() < timeouts.attempt_timeout().unwrap());
    assert_eq!(timeouts.worst_case().elapsed, timeouts.deadline(), "which is what ends a call");
}
