//! What README.md asks its readers to paste.

use std::net::TcpListener;

use crate::{Scratch, program, text};

const README: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md"));

#[test]
fn a_python_program_survives_a_server_that_fails_every_second_request() {
    let section = README.split("## In any language").nth(1).unwrap();
    let pasted = section.split("```").nth(1).unwrap().strip_prefix("sh\n").unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let pasted = pasted
        .replace("cargo run --release --", env!("CARGO_BIN_EXE_redial"))
        .replace("8900", &port.to_string())
        // A slow machine needs longer than a reader.
        .replace("sleep 1", "until (: < /dev/tcp/127.0.0.1/PORT) 2> /dev/null; do sleep 0.1; done")
        .replace("PORT", &port.to_string());
    let files = Scratch::new("readme-proxy");
    let output = program("bash").args(["-m", "-c", &pasted]).current_dir(files.path("")).output();
    let output = output.unwrap();
    assert_eq!(text(&output.stdout), "200\n".repeat(5), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr).matches("attempts=2").count(), 5, "{}", text(&output.stderr));
}
