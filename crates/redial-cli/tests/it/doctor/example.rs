//! The example `storm`: a shop, its users, and a backend with faults.

#![allow(clippy::disallowed_methods, reason = "waits for other processes")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// The example, until this is dropped.
pub(super) struct Storm {
    child: Child,
    address: SocketAddr,
}

impl Storm {
    pub(super) fn start(policy: &str, phase: &str) -> Self {
        // The directory of the examples is beside `deps`, which has our own program.
        let ours = std::env::current_exe().unwrap();
        let program = ours.parent().unwrap().parent().unwrap().join("examples").join("storm");
        assert!(
            program.is_file(),
            "{} is not built: `cargo xtask test` does, or `cargo build -p redial --all-features --example storm`",
            program.display()
        );
        let mut child = crate::program(program)
            .args(["--policy", policy, "--phase", phase])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (_, rest) = line.split_once("http://").unwrap_or_else(|| panic!("it says {line:?}"));
        let address = rest.split('/').next().unwrap().parse().unwrap();
        Self { child, address }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn metrics(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    pub(super) fn set(&self, phase: &str) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!("POST /phase/{phase} HTTP/1.0\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "{answer}");
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Polls until there is a value.
pub(super) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if let Some(answer) = ask() {
            return answer;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("not within {PATIENCE:?}: {what}");
}
