//! A real Envoy that retries against a failing backend: its counters show what it sends.

#![allow(clippy::disallowed_methods, reason = "waits for another process")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Scratch, redial, text};

const PATIENCE: Duration = Duration::from_secs(60);

/// A backend that responds with 503; returns its address, and the count of requests.
fn failing() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = stream.read(&mut [0; 4096]);
            let answer = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, count)
}

struct Envoy {
    child: Child,
    traffic: SocketAddr,
    admin: SocketAddr,
    _config: Scratch,
}

impl Envoy {
    fn start(backend: SocketAddr) -> Self {
        // The ports are free now, but another process may bind them before Envoy does.
        (0..3).find_map(|_| Self::try_start(backend)).expect("no Envoy listens")
    }

    fn try_start(backend: SocketAddr) -> Option<Self> {
        let program = std::env::var_os("REDIAL_TEST_ENVOY").unwrap_or_else(|| {
            panic!("REDIAL_TEST_ENVOY names no Envoy: run `cargo xtask test`, which installs one")
        });
        let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [traffic, admin] = free.map(|listener| listener.local_addr().unwrap());
        let scratch = Scratch::new(&format!("envoy-{}", traffic.port()));
        let config = CONFIG
            .replace("ADMIN", &admin.port().to_string())
            .replace("TRAFFIC", &traffic.port().to_string())
            .replace("BACKEND", &backend.port().to_string());
        let config = scratch.file("envoy.yaml", config);
        let child = crate::program(program)
            .args([
                "--disable-hot-restart",
                "--concurrency",
                "1",
                "--log-level",
                "error",
                "-c",
                &config,
            ])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut envoy = Self { child, traffic, admin, _config: scratch };
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if TcpStream::connect(traffic).is_ok() {
                return Some(envoy);
            }
            if envoy.child.try_wait().unwrap().is_some() {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }

    fn call(&self) -> String {
        let mut stream = TcpStream::connect(self.traffic).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_envoy_that_retries_is_a_storm() {
    let (backend, arrived) = failing();
    let envoy = Envoy::start(backend);
    let url = format!("http://{}/stats/prometheus", envoy.admin);
    let doctor = thread::spawn({
        let url = url.clone();
        move || redial(&["doctor", &url, "--for", "6s", "--json"])
    });
    let mut calls = 0;
    while !doctor.is_finished() {
        assert!(envoy.call().starts_with("HTTP/1.1 503"));
        calls += 1;
    }
    let output = doctor.join().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(arrived.load(Ordering::Relaxed), 4 * calls, "three retries for each call");

    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cluster = &said["subjects"][0];
    assert_eq!((&cluster["kind"], &cluster["name"]), (&"cluster".into(), &"orders".into()));
    // A call that spans a scrape shifts it a little.
    let multiplier = cluster["multiplier"].as_f64().unwrap();
    assert!((3.5..4.5).contains(&multiplier), "{cluster}");
    let symptoms: Vec<_> =
        cluster["findings"].as_array().unwrap().iter().map(|f| &f["symptom"]).collect();
    assert_eq!(symptoms, ["unbounded", "attempts-used"]);
    assert!(said["unknown"].to_string().contains("which requests to Envoy are retries"));

    let output = redial(&["doctor", &url, "--for", "100ms"]);
    assert_eq!(output.status.code(), Some(0), "there are no calls any more");
    let said = text(&output.stdout);
    assert!(said.starts_with("nothing to judge: http://"), "{said}");
    assert!(said.contains("\nidle: cluster orders (--for 1m measures longer)\n"), "{said}");
}

const CONFIG: &str = r#"
admin: { address: { socket_address: { address: 127.0.0.1, port_value: ADMIN } } }
static_resources:
  listeners:
  - address: { socket_address: { address: 127.0.0.1, port_value: TRAFFIC } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: { prefix: "/" }
                route:
                  cluster: orders
                  retry_policy: { retry_on: "5xx", num_retries: 3, retry_back_off: { base_interval: 0.005s } } # tidy-allow: Envoy's name
          http_filters:
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
  - name: orders
    type: STATIC
    load_assignment:
      cluster_name: orders
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: BACKEND } } } }] }]
"#;
