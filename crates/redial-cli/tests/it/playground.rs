//! The command that the playground shows computes the figures that it shows.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread;

use redial_web::{App, Listen, Token, Web};
use serde_json::{Value, json};

use crate::Scratch;

/// The address of a server, and its token.
fn open() -> (SocketAddr, String) {
    let token = Token::new().unwrap();
    let secret = token.reveal().to_owned();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let listen = Listen::new(([127, 0, 0, 1], 0).into(), token);
            let web = Web::bind(listen).await.unwrap();
            sender.send(web.address()).unwrap();
            web.serve(App::default()).await;
        });
    });
    (receiver.recv().unwrap(), secret)
}

fn simulate((address, token): &(SocketAddr, String), ask: &Value) -> Value {
    let body = ask.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /api/simulate HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn the_command_of_the_playground_computes_its_figures() {
    let site = open();
    let mine = "attempts = 3\nbackoff = { jitter = \"none\" }\n";
    let asks = [
        json!({ "story": "collapse" }),
        json!({ "story": "collapse", "seed": 7, "sliders": { "traffic": 250_000, "load": 85, "clients": 500, "budget": 10, "jitter": "full" } }),
        json!({ "story": "collapse", "sliders": { "traffic": 30, "clients": 25_000_000 }, "policies": [{ "name": "peer:grpc" }, { "name": "mine", "toml": mine }] }),
        json!({ "story": "players", "sliders": { "outage": 250 } }),
        json!({ "story": "payments", "sliders": { "traffic": 100_000_000, "attempts": 10, "outage": 2000 } }),
        json!({ "story": "metastable", "sliders": { "load": 60, "timeout": 1000 } }),
    ];
    let scratch = Scratch::new("playground");
    scratch.file("mine.toml", mine);
    for ask in asks {
        let answer = simulate(&site, &ask);
        let command = answer["command"].as_str().unwrap();
        let rest = command.strip_prefix("redial sim ").unwrap();
        let mut shell = crate::program("sh");
        let program = env!("CARGO_BIN_EXE_redial");
        let shell = shell.args(["-c", &format!("{program} sim {rest} --json")]);
        let output = shell.current_dir(&scratch.0).output().unwrap();
        assert!(output.status.success(), "{command}: {}", crate::text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let results = report["results"].as_array().unwrap();
        let policies = answer["policies"].as_array().unwrap();
        assert_eq!(results.len(), policies.len(), "{command}");
        for (result, policy) in results.iter().zip(policies) {
            let figures = &policy["result"]["figures"];
            for name in
                ["calls", "attempts", "amplification", "success", "peak_ratio", "recover_ms"]
            {
                assert_eq!(result[name], figures[name], "{name} of {command}");
            }
            assert_eq!(result["collapse"].as_f64(), figures["collapse"][0].as_f64(), "{command}");
        }
    }
}
