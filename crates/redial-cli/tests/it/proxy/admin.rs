//! The admin interface and the access log.

use std::io::Write as _;
use std::net::TcpStream;

use serde_json::Value;

use super::{FREE, Server, Sidecar, ask, get, upstream};
use crate::eventually;

const RETRIES: &str = "policy = \"p\"\nendpoint = { breaker = { failures = 0.5 } }\n[policy.p]\nattempts = 2\nbackoff = { base = \"1ms\" }\nbudget = \"none\"\n";

fn json(port: u16, method: &str, path: &str, fields: &str) -> (u16, Value) {
    let (status, response) = ask(port, method, path, fields);
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap())
}

fn guarded(server: &Server) -> Sidecar {
    let file = format!("{FREE}{}", upstream("app", server, RETRIES));
    Sidecar::start(&file.replace("{ failures = 0.5 }", "{}"))
}

#[test]
fn a_breaker_is_opened_and_reset_by_hand() {
    let server = Server::ok();
    let sidecar = guarded(&server);
    let (port, admin) = (sidecar.port("app"), sidecar.port("admin"));
    let endpoint = format!("127.0.0.1:{}", server.port);
    let expected = |state: &str| serde_json::json!({ "upstream": "app", "endpoint": endpoint, "state": state });
    assert_eq!(json(admin, "GET", "/breakers", ""), (200, Value::from(vec![expected("closed")])));
    let path = |order: &str| format!("/breakers/app/{endpoint}/{order}");
    assert_eq!(json(admin, "POST", &path("open"), ""), (200, expected("open")));
    assert_eq!(get(port, "/"), 503);
    assert_eq!(json(admin, "POST", &path("reset"), ""), (200, expected("closed")));
    assert_eq!(get(port, "/"), 200);
    // Everything else is an error of one sentence.
    let mistakes = [
        ("POST", "/breakers/none/x/open".to_owned(), "", 404, "no upstream `none`"),
        ("POST", "/breakers/app/x/open".to_owned(), "", 404, "has no endpoint or policy `x`"),
        ("POST", path("half"), "", 404, "/breakers/UPSTREAM/ENDPOINT/open"),
        ("GET", path("open"), "", 405, "only POST"),
        ("POST", "/config".to_owned(), "", 405, "only GET"),
        ("GET", "/nothing".to_owned(), "", 404, "/metrics"),
        ("POST", path("open"), "origin: http://evil.example\r\n", 403, "web pages"),
    ];
    for (method, path, fields, status, error) in mistakes {
        let (answered, body) = json(admin, method, &path, fields);
        assert_eq!(answered, status, "{method} {path}");
        assert!(body["error"].as_str().unwrap().contains(error), "{body}");
    }
    assert_eq!(json(admin, "GET", "/breakers", "").1[0]["state"], "closed");
}

#[test]
fn names_that_resolve_to_this_machine_are_not_answered() {
    use std::io::{Read as _, Write as _};
    let server = Server::ok();
    let sidecar = guarded(&server);
    let admin = sidecar.port("admin");
    for (host, status) in [
        ("evil.example", 403),
        ("evil.example:80", 403),
        ("127.0.0.1.evil.example", 403),
        ("10.0.0.1", 403),
        ("localhost", 200),
        ("127.0.0.1:9900", 200),
        ("[::1]:9900", 200),
    ] {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", admin)).unwrap();
        write!(stream, "GET /config HTTP/1.1\r\nhost: {host}\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {response}");
    }
}

#[test]
fn config_and_metrics_show_what_runs() {
    let server = Server::new(|number, _| if number == 0 { 503 } else { 200 });
    let sidecar = guarded(&server);
    let (port, admin) = (sidecar.port("app"), sidecar.port("admin"));
    assert_eq!(get(port, "/"), 200);
    let (_, config) = json(admin, "GET", "/config", "");
    assert_eq!(config["upstream"]["app"]["to"], server.url());
    assert_eq!(config["policy"]["p"]["attempts"], 2);
    let metrics = ask(admin, "GET", "/metrics", "").1;
    let endpoint = format!("upstream=\"app\",endpoint=\"127.0.0.1:{}\"", server.port);
    for line in [
        "redial_calls_total{upstream=\"app\",origin=\"fresh\"} 1".to_owned(),
        "redial_attempts_total{upstream=\"app\"} 2".to_owned(),
        format!("redial_endpoint_requests_total{{{endpoint}}} 2"),
        format!("redial_endpoint_failures_total{{{endpoint}}} 1"),
        format!("redial_endpoint_healthy{{{endpoint}}} 1"),
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}\n{metrics}");
    }
    assert_eq!(json(admin, "GET", "/healthz", "").0, 200);
}

#[test]
fn the_access_log_has_a_line_for_each_request_without_its_query() {
    let server = Server::new(|_, path| match path {
        "/hang" => loop {
            std::thread::park();
        },
        "/down" => 503,
        _ => 200,
    });
    let file = format!("{FREE}log = \"json\"\n{}", upstream("app", &server, RETRIES));
    let file = file.replace("{ failures = 0.5 }", "{}");
    let files = crate::Scratch::new("proxy-log");
    let path = files.file("proxy.toml", file);
    let log = std::fs::File::create(files.path("log")).unwrap();
    let mut command = crate::program(super::REDIAL);
    let child = command.args(["proxy", &path]).stderr(log).spawn().unwrap();
    let sidecar = Sidecar { child, files };
    let lines = || -> Vec<Value> {
        let log = sidecar.log();
        let whole = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    eventually(|| lines().len() >= 2);
    let port = lines()[0]["message"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace = format!("traceparent: {parent}\r\ntracestate: a=1,b=2\r\n");
    assert_eq!(ask(port, "GET", "/paid?card=4242", &trace).0, 200);
    assert_eq!(get(port, "/down"), 503);
    let mut leaves = TcpStream::connect(("127.0.0.1", port)).unwrap();
    leaves.write_all(b"GET /hang HTTP/1.1\r\nHost: app\r\n\r\n").unwrap();
    eventually(|| server.requests().len() == 4);
    drop(leaves);
    eventually(|| lines().iter().filter(|it| it["event"] == "request").count() == 3);
    let lines = lines();
    let requests: Vec<&Value> = lines.iter().filter(|it| it["event"] == "request").collect();
    let [paid, down, left] = requests[..] else { panic!("{requests:?}") };
    let endpoint = format!("127.0.0.1:{}", server.port);
    let parts = |it: &Value| {
        ["upstream", "method", "path", "status", "endpoint", "attempts", "stop"]
            .map(|name| it[name].to_string().trim_matches('"').to_owned())
    };
    assert_eq!(parts(paid), ["app", "GET", "/paid", "200", &endpoint, "1", "null"]);
    assert_eq!(parts(down), ["app", "GET", "/down", "503", &endpoint, "2", "attempts"]);
    assert_eq!(parts(left), ["app", "GET", "/hang", "null", &endpoint, "1", "null"]);
    assert!(!sidecar.log().contains("4242"));
    // The context of a trace is carried on as it came.
    let sent = server.requests()[0].to_ascii_lowercase();
    assert!(sent.contains(&format!("traceparent: {parent}\r\n")), "{sent}");
    assert!(sent.contains("tracestate: a=1,b=2\r\n"), "{sent}");
}
