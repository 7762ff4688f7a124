//! The files in `ops/sidecar`, as far as they can be checked without a cluster.

use crate::{Scratch, program, redial, text};

const MANIFEST: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ops/sidecar/kubernetes.yaml"));
const UNIT: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ops/sidecar/redial-proxy.service"));
const SOCKET: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ops/sidecar/redial-proxy.socket"));

#[test]
fn the_sidecar_accepts_the_file_of_the_manifest() {
    let config = MANIFEST.split("proxy.toml: |\n").nth(1).unwrap().split("---").next().unwrap();
    let files = Scratch::new("ops-manifest");
    let path = files.file("proxy.toml", config.replace("\n    ", "\n"));
    let output = redial(&["proxy", "--check", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn systemd_accepts_the_units() {
    let files = Scratch::new("ops-units");
    let unit = UNIT.replace("/usr/local/bin/redial", env!("CARGO_BIN_EXE_redial"));
    let unit = files.file("redial-proxy.service", unit);
    let socket = files.file("redial-proxy.socket", SOCKET);
    let output = program("systemd-analyze").args(["verify", &unit, &socket]).output();
    let output = output.expect("systemd-analyze, which is in Debian's package systemd");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}
