//! The endpoint of `redial doctor`: its answers and its errors.

#![allow(clippy::disallowed_methods, reason = "waits for another process")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::Value;

use crate::{redial, text};

const PAGE: &str = include_str!("../../../../../docs/seeing-a-storm.md");

/// Gives each connection the next of these responses, and further ones the last; returns the address.
pub(super) fn serve(answers: Vec<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let answer = &answers[number.min(answers.len() - 1)];
            let _ = read_head(&mut stream);
            let _ = stream.write_all(answer);
        }
    });
    format!("http://{address}/metrics")
}

fn read_head(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    // A TLS client begins with this byte, and gets a response at once, as from web servers.
    while !head.ends_with(b"\r\n\r\n") && head != [0x16] && stream.read(&mut byte)? == 1 {
        head.push(byte[0]);
    }
    Ok(())
}

fn http(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n");
    format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

pub(super) fn metrics(body: &str) -> Vec<u8> {
    http("200 OK", "text/plain; version=0.0.4", body)
}

fn client(fresh: u64, retried: u64, attempts: u64) -> Vec<u8> {
    metrics(&format!(
        "# TYPE redial_calls_total counter
redial_calls_total{{upstream=\"api\",origin=\"fresh\"}} {fresh}
redial_calls_total{{upstream=\"api\",origin=\"retried\"}} {retried}
redial_attempts_total{{upstream=\"api\"}} {attempts}
# EOF
"
    ))
}

fn ask(url: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let output = redial(&[&["doctor", url, "--for", "100ms"], more].concat());
    let (stdout, stderr) = (text(&output.stdout).to_owned(), text(&output.stderr).to_owned());
    (output.status.code(), stdout, stderr)
}

#[test]
fn a_storm_is_described_in_words() {
    let url = serve(vec![client(7, 7, 7), client(107, 197, 317)]);
    let (code, said, _) = ask(&url, &[]);
    assert_eq!(code, Some(1), "{said}");
    let words: Vec<_> = said.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.starts_with("a storm: http://127.0.0.1:"), "{said}");
    let sentence = "storm: this client sends 3.1 attempts per call to upstream api; 90% of the excess is retries from a \
                    layer above, the rest is its own retries (attempts: 310, calls: 100, and 190 for retries from above)";
    assert!(words.contains(sentence), "{said}");
    assert!(
        words.contains("- 190 of 290 calls are retries of a layer above fix: attempts multiply"),
        "{said}"
    );
    assert!(words.contains("? cannot tell whether there are more calls than usual"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
}

#[test]
fn no_storm_is_exit_0() {
    let url = serve(vec![client(0, 0, 0), client(100, 0, 102)]);
    let (code, said, noted) = ask(&url, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("no storm: http://"), "{said}");
    assert!(
        said.contains("calm: this client sends 1.02 attempts per call to upstream api"),
        "{said}"
    );
    assert_eq!(noted, "redial: measuring the traffic now for 100 ms\n");
}

#[test]
fn the_first_threshold_is_exit_1() {
    let url = serve(vec![client(0, 0, 0), client(100, 0, 150)]);
    let (code, said, _) = ask(&url, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("nearly a storm: http://"), "{said}");
    assert!(said.contains("\nwarn: this client sends 1.5 attempts per call"), "{said}");
    let url = serve(vec![client(0, 0, 0), client(1000, 0, 1499)]);
    let (code, said, _) = ask(&url, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("\ncalm: this client sends 1.4 attempts per call"), "{said}");
}

#[test]
fn a_baseline_distinguishes_a_surge_from_a_storm() {
    let url = serve(vec![client(0, 0, 0), client(10, 0, 10), client(20_010, 0, 20_010)]);
    let (code, said, noted) = ask(&url, &["--baseline", "100ms", "--json"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(noted.starts_with("redial: measuring the usual traffic for 100 ms\n"), "{noted}");
    let said: Value = serde_json::from_str(&said).unwrap();
    let api = &said["subjects"][0];
    assert_eq!(api["findings"][0]["symptom"], "surge");
    // Two thousand times the calls, in about the same time.
    assert!(api["surge"].as_f64().unwrap() > 2.0, "{api}");
}

#[test]
fn too_little_is_not_judged() {
    let url = serve(vec![client(0, 0, 0), client(1, 0, 3)]);
    let (code, said, _) = ask(&url, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("too little to judge: http://"), "{said}");
    assert!(
        said.contains("\nunknown: this client sends 3.0 attempts per call to upstream api;"),
        "{said}"
    );
    let url = serve(vec![client(0, 0, 0), client(1, 0, 3)]);
    let (_, said, _) = ask(&url, &["--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["level"], &said["subjects"][0]["level"]), (&Value::Null, &Value::Null));
}

#[test]
fn an_impossible_counter_is_unknown() {
    let page = "redial_calls_total{upstream=\"api\",origin=\"fresh\"} 5\nredial_attempts_total{upstream=\"api\"} 1e400\n";
    let (code, said, _) = ask(&serve(vec![client(0, 0, 0), metrics(page)]), &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("unknown: http://"), "{said}");
    assert!(said.contains("\nunknown: upstream api\n"), "{said}");
    assert!(
        said.contains("cannot tell whether it is a storm: redial_attempts_total is inf"),
        "{said}"
    );
}

#[test]
fn a_queue_shows_the_ratio_of_its_workers() {
    let page = |calls: u64, attempts: u64| {
        metrics(&format!(
            "redial_calls_total{{upstream=\"mail\",origin=\"fresh\"}} {calls}
redial_attempts_total{{upstream=\"mail\"}} {attempts}
redial_multiplier_ratio{{upstream=\"mail\"}} 1.2
redial_queue_jobs_total{{queue=\"mail\",result=\"done\"}} {calls}\n"
        ))
    };
    let (code, said, _) = ask(&serve(vec![page(0, 0), page(100, 500)]), &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("\ncalm: the workers of mail report 1.2 attempts per job"), "{said}");
}

#[test]
fn a_ratio_without_fresh_calls_is_not_shown() {
    let url = serve(vec![client(5, 0, 5), client(5, 40, 45)]);
    let (code, said, _) = ask(&url, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("\ncritical: all calls to upstream api are retries from a layer above;"),
        "{said}"
    );
}

#[test]
fn an_envoy_of_a_mesh_is_read() {
    let page: String = {
        let cluster = |cluster: u64| {
            ["total", "retry", "retry_overflow", "retry_limit_exceeded", "retry_success"]
                .map(|name| {
                    format!(
                        "envoy_cluster_upstream_rq_{name}{{envoy_cluster_name=\"c{cluster}\"}} 7\n"
                    )
                })
                .concat()
        };
        (0..20_000).map(cluster).collect()
    };
    // A quadratic algorithm would take minutes.
    let (code, said, _) = ask(&serve(vec![metrics(&page)]), &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("and 19980 more"), "{said}");
}

#[test]
fn idle_clusters_are_one_line() {
    let line =
        |n| format!("envoy_cluster_upstream_rq_total{{envoy_cluster_name=\"c{n:02}\"}} {n}\n");
    let page = (0..24).map(line).collect::<String>();
    let url = serve(vec![metrics(&page), metrics(&page.replace("\"c00\"} 0", "\"c00\"} 50"))]);
    let (code, said, _) = ask(&url, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("calm: Envoy sends 1.00 attempts per call to cluster c00;"), "{said}");
    let idle = said.split("\n\n").find(|part| part.starts_with("idle: cluster c01, ")).unwrap();
    assert!(idle.contains("cluster c20, and 3 more (--for"), "{said}");
    assert_eq!(said.matches("cluster").count(), 21, "{said}");
}

#[test]
fn json_has_the_numbers() {
    let url = serve(vec![client(7, 7, 7), client(107, 197, 317)]);
    let (code, said, _) = ask(&url, &["--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["level"]), (Some(1), &"storm".into()));
    assert!(said["seconds"].as_f64().unwrap() >= 0.1);
    let api = &said["subjects"][0];
    assert_eq!(
        (&api["kind"], &api["name"], &api["level"]),
        (&"upstream".into(), &"api".into(), &"storm".into())
    );
    assert_eq!(
        (&api["calls"], &api["inherited"], &api["attempts"]),
        (&290.into(), &190.into(), &310.into())
    );
    assert_eq!(api["multiplier"], 3.1);
    assert_eq!(api["findings"][0]["symptom"], "from-above");
    assert!(!said["unknown"].as_array().unwrap().is_empty());
    for object in [&said, api, &api["findings"][0]] {
        for field in object.as_object().unwrap().keys() {
            assert!(PAGE.contains(&format!("`{field}`")), "the page does not have {field}");
        }
    }
}

#[test]
fn a_wrong_endpoint_is_exit_2_and_the_error_says_what_to_do() {
    let huge = {
        let mut huge = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        huge.extend("a 1\n".repeat(5 * 1024 * 1024).bytes());
        huge
    };
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nredial_attempts_total 3\n".to_vec();
    for (answer, said) in [
        (
            http("200 OK", "text/html", "<!doctype html><p>hello"),
            "a web page; metrics are often at /metrics",
        ),
        (http("200 OK", "application/json", "{\"a\": 1}"), "responds with JSON"),
        (http("200 OK", "application/json", "{\n  \"a\": 1\n}"), "responds with JSON"),
        (http("200 OK", "text/plain", "[1]"), "responds with JSON"),
        (metrics(""), "the response has no metrics"),
        (metrics("# nothing\n# EOF\n"), "the response has no metrics"),
        (metrics("go_goroutines 7\nup 1\n"), "none of its 2 samples is about retries"),
        (metrics("up 1\nhello there, world\n"), "line 2 has no number: hello there, world"),
        (
            http("404 Not Found", "text/plain", "no"),
            "responds with 404 Not Found; metrics are often",
        ),
        (http("401 Unauthorized", "text/plain", "no"), "write http://USER:PASSWORD@HOST"),
        (
            http("503 Service Unavailable", "text/plain", "no"),
            "responds with 503 Service Unavailable: check",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), "cannot fetch it: "),
        (b"HTTP/1.1 200 OK\r\n\r\n\x0a\xff\xfe\x00".to_vec(), "data that is not text"),
        (huge, "more than 16 MiB"),
        (cut, "cut off after 24 bytes"),
        (Vec::new(), "cannot fetch it: "),
    ] {
        let (code, stdout, stderr) = ask(&serve(vec![answer]), &[]);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{said}: {stderr}");
        assert!(
            stderr.starts_with("redial: http://127.0.0.1:") && stderr.contains(said),
            "{stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn the_largest_page_is_read() {
    let metric = "redial_attempts_total{upstream=\"api\"} 3\n";
    let comment = format!("# {}\n", "x".repeat(1021));
    let mut page = comment.repeat(16 * 1024 - 1);
    page += &"\n".repeat(1024 - metric.len());
    page += metric;
    assert_eq!(page.len(), 16 * 1024 * 1024);
    let (code, said, stderr) = ask(&serve(vec![metrics(&page)]), &[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(said.contains("idle: upstream api"), "{said}");
    let (code, _, stderr) = ask(&serve(vec![metrics(&(page + "\n"))]), &[]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("more than 16 MiB"), "{stderr}");
}

#[test]
fn an_endpoint_that_fails_in_between_is_exit_2() {
    let url = serve(vec![client(7, 7, 7), http("500 Internal Server Error", "text/plain", "")]);
    let (code, stdout, stderr) = ask(&url, &[]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("responds with 500 Internal Server Error"), "{stderr}");
}

#[test]
fn a_refused_connection_is_exit_2() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", free.local_addr().unwrap());
    drop(free);
    let (code, _, stderr) = ask(&url, &[]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("refused") && stderr.contains("that this is its port"), "{stderr}");
}

#[test]
fn a_server_without_tls_is_reported() {
    let url = serve(vec![client(0, 0, 0)]).replace("http://", "https://");
    let (code, _, stderr) = ask(&url, &[]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("; if it has no TLS, write http://"), "{stderr}");
}

#[test]
fn a_server_that_hangs_times_out() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, _, stderr) = ask(&format!("http://{}/", silent.local_addr().unwrap()), &[]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("timed out after 10 s"), "{stderr}");
}

#[test]
fn wrong_usage_is_exit_2() {
    for (args, said) in [
        (&["localhost:9000/metrics"][..], "write it as http://HOST:PORT/metrics"),
        (&["metrics"], "write it as http://HOST:PORT/metrics"),
        (&["http://"], "write it as http://HOST:PORT/metrics"),
        (&["http://localhost", "--for", "1ms"], "100ms to 1h"),
        (&["http://localhost", "--for", "2h"], "100ms to 1h"),
        (&["http://localhost", "--baseline", "soon"], "--baseline"),
        (&[], "METRICS-URL"),
    ] {
        let output = redial(&[&["doctor"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(said), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_password_is_not_repeated() {
    let url = serve(vec![http("404 Not Found", "text/plain", "no")]);
    let (_, _, stderr) = ask(&url.replace("//", "//me:secret@"), &[]);
    assert!(stderr.contains("me:") && !stderr.contains("secret"), "{stderr}");
}
