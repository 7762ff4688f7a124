//! With all features on, an import that only one of them needs and a type that another one brings along go
//! unnoticed. So each feature is built alone, as a user would, and warnings are errors.

use serde_json::Value;

use crate::cargo::{cargo, metadata, run};

/// What users combine. Each feature alone, none and the default ones come from the manifests.
const COMBINATIONS: &[(&str, &[&str])] = &[
    ("redial", &["fleet,metrics,reqwest", "metrics,redis,tracing", "otel,tonic"]),
    ("redial-queue", &["delivery,metrics,sqlite", "delivery,postgres,tracing"]),
];

/// Checks every set of features of every crate that has some.
pub fn check() -> Result<(), String> {
    for (package, features) in sets(&metadata(&["--no-deps"])?) {
        println!("{package}: {features}");
        let args = "rustc --quiet --lib --profile check --no-default-features --package";
        let mut command = cargo(args.split(' '));
        command.args([&package, "--features", &features, "--", "--deny", "warnings"]);
        run(&mut command, "fix what it reports")?;
    }
    Ok(())
}

/// The sets to check, each as a package and its features with commas between.
#[must_use]
pub fn sets(metadata: &Value) -> Vec<(String, String)> {
    let mut sets = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let features = package["features"].as_object().into_iter().flatten();
        let mut alone = features.map(|(feature, _)| feature.as_str()).peekable();
        if alone.peek().is_none() {
            continue;
        }
        let combinations = COMBINATIONS.iter().filter(|(of, _)| *of == name);
        let combinations = combinations.flat_map(|(_, sets)| sets.iter().copied());
        let all = [""].into_iter().chain(alone).chain(combinations);
        sets.extend(all.map(|features| (name.to_owned(), features.to_owned())));
    }
    sets
}
