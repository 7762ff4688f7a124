//! Which sets of features are checked.

use serde_json::json;
use xtask::features::sets;

fn check(package: &serde_json::Value) -> String {
    let sets = sets(&json!({ "packages": [package] }));
    sets.iter().map(|(package, features)| format!("{package}:{features}\n")).collect()
}

#[test]
fn each_feature_alone_and_none() {
    let features = json!({ "default": ["std"], "std": [], "serde": ["dep:serde"] });
    let package = json!({ "name": "a", "features": features });
    assert_eq!(check(&package), "a:\na:default\na:serde\na:std\n");
}

#[test]
fn what_users_combine() {
    let package = json!({ "name": "redial-queue", "features": { "sqlite": [] } });
    let sets = check(&package);
    assert!(
        sets.starts_with("redial-queue:\nredial-queue:sqlite\nredial-queue:delivery,"),
        "{sets}"
    );
}

#[test]
fn a_crate_without_features_is_left_out() {
    assert_eq!(check(&json!({ "name": "a", "features": {} })), "");
}
