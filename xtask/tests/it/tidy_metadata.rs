//! The rules about `cargo metadata`: dependencies between our crates, and licences.

use serde_json::{Value, json};
use xtask::tidy::{Tree, check_metadata, licences::is_accepted};

use crate::findings::Findings;

/// One of our crates, with its dependencies as (name, kind).
fn member(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
    let dependencies: Vec<_> =
        dependencies.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
    let manifest = format!("/w/crates/{name}/Cargo.toml");
    json!({ "name": name, "source": null, "manifest_path": manifest, "dependencies": dependencies })
}

fn foreign(name: &str, licence: Option<&str>) -> Value {
    json!({ "name": name, "source": "registry", "license": licence })
}

fn check<const N: usize>(packages: [Value; N]) -> Findings {
    let manifest = "[dependencies]\nredial-cli.workspace = true\nredial = {}\n";
    let lock = "[[package]]\nname = \"a\"\n\n[[package]]\nname = \"b\"\n";
    let tree = Tree::new([("crates/redial-core/Cargo.toml", manifest), ("Cargo.lock", lock)]);
    let metadata = json!({ "packages": packages.to_vec(), "workspace_root": "/w" });
    Findings::new(&check_metadata(&metadata, &tree))
}

#[test]
fn arrows_point_one_way() {
    let core = || member("redial-core", &[("serde", None)]);
    let redial = || member("redial", &[("redial-core", None)]);
    let xtask = || member("xtask", &[]);
    check([core(), redial(), xtask()]).is_empty();
    check([member("redial-core", &[("redial", None)]), redial()]).is(&[
        "crates/redial-core/Cargo.toml:3: `redial-core` must not depend on `redial` (on none of",
    ]);
    check([core(), redial(), member("redial-policy", &[("redial", None)])]).is(&[
        "crates/redial-policy/Cargo.toml:1: `redial-policy` must not depend on `redial` (only on",
    ]);
    check([member("redial-cli", &[("xtask", Some("build"))]), xtask()]).is(&[
        "crates/redial-cli/Cargo.toml:1: `redial-cli` must not depend on `xtask` (on all but",
    ]);
}

#[test]
fn tests_may_use_any_crate() {
    check([member("redial-core", &[("redial", Some("dev"))]), member("redial", &[])]).is_empty();
}

#[test]
fn a_new_crate_needs_a_row() {
    check([member("redial-new", &[])]).is(&[
        "crates/redial-new/Cargo.toml:1: `redial-new` has no row: add it to the arrow table",
    ]);
}

#[test]
fn a_package_with_a_licence_we_refuse() {
    check([foreign("a", Some("MIT")), foreign("b", Some("GPL-3.0 OR ISC"))]).is_empty();
    check([foreign("a", None), foreign("b", Some("GPL-3.0"))]).is(&[
        "Cargo.lock:2: `a` has no licence expression, which we do not accept: ",
        "Cargo.lock:5: `b` has GPL-3.0, which we do not accept: ",
    ]);
}

#[test]
fn licence_expressions_are_evaluated() {
    let accepted = [
        "MIT",
        "MIT OR Apache-2.0",
        "MIT/Apache-2.0",
        "GPL-2.0 / MIT",
        "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        "(MIT OR GPL-2.0) AND Unicode-3.0",
        "GPL-2.0 OR (MIT AND (ISC OR GPL-3.0))",
        "GPL-2.0 AND ISC OR MIT",
    ];
    for expression in accepted {
        assert!(is_accepted(expression), "{expression}");
    }
    let refused = [
        "",
        "GPL-2.0",
        "MIT AND GPL-2.0",
        "MIT AND (GPL-2.0 OR GPL-3.0)",
        "MIT WITH LLVM-exception",
        "(MIT",
        "MIT)",
        "MIT OR",
        "MIT ISC",
    ];
    for expression in refused {
        assert!(!is_accepted(expression), "{expression}");
    }
}
