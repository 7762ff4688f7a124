#![allow(clippy::disallowed_methods, reason = "waits for another process")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// The longest wait for Envoy.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

fn program() -> PathBuf {
    let path = env::var_os("REDIAL_TEST_ENVOY");
    let path = path.unwrap_or_else(|| {
        panic!("REDIAL_TEST_ENVOY is not set: run `cargo xtask test`, which installs Envoy")
    });
    path.into()
}

/// A file that is deleted on drop.
struct Config(PathBuf);

impl Config {
    fn new(text: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("redial-envoy-{}-{count}.yaml", std::process::id());
        let path = env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether Envoy accepts a config, or its error.
pub(super) fn validate(text: &str) -> Result<(), String> {
    let config = Config::new(text);
    let output = Command::new(program())
        .args(["--mode", "validate", "--log-level", "warn", "-c"])
        .arg(&config.0)
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// An Envoy on a free loopback port, which is killed on drop.
pub(super) struct Proxy {
    child: Child,
    address: SocketAddr,
    _config: Config,
}

impl Proxy {
    /// Starts Envoy with an exported config, with its endpoints replaced by the upstream.
    pub(super) fn start(exported: &str, upstream: u16) -> Self {
        // Another process may take the free port before Envoy binds it.
        for _ in 0..3 {
            if let Some(proxy) = Self::try_start(exported, upstream) {
                return proxy;
            }
        }
        panic!("Envoy does not listen");
    }

    fn try_start(exported: &str, upstream: u16) -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let text = exported
            .replace("port_value: 10000", &format!("port_value: {}", address.port()))
            .replace("port_value: 8080", &format!("port_value: {upstream}"));
        let config = Config::new(&text);
        let child = Command::new(program())
            .args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "error", "-c"])
            .arg(&config.0)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut proxy = Self { child, address, _config: config };
        let started = Instant::now();
        while started.elapsed() < TIMEOUT {
            if TcpStream::connect(address).is_ok() {
                return Some(proxy);
            }
            if proxy.child.try_wait().unwrap().is_some() {
                return None;
            }
            thread::sleep(POLL);
        }
        None
    }

    /// Sends a request such as `GET /path` to this host, and returns the response.
    pub(super) fn call(&self, request: &str, host: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let rest = "content-length: 0\r\nconnection: close";
        let text = format!("{request} HTTP/1.1\r\nhost: {host}\r\n{headers}{rest}\r\n\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
