//! The example `storm`: a shop, its users, and a backend with faults. Its users come when a test sends them, so that its
//! counters do not depend on the time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};

/// The example, until this is dropped.
pub(super) struct Storm {
    child: Child,
    address: SocketAddr,
}

impl Storm {
    pub(super) fn start(policy: &str, phase: &str) -> Self {
        let program = xtask::examples::folder().unwrap().join("storm");
        let mut child = crate::program(program)
            .args(["--policy", policy, "--phase", phase, "--rate", "0"])
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

    /// Its metrics now.
    pub(super) fn page(&self) -> String {
        request(self.address, "GET", "/metrics")
    }

    /// Its metrics after this many users have asked and have an answer.
    pub(super) fn after(&self, users: u32) -> String {
        request(self.address, "POST", &format!("/users/{users}"));
        self.page()
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of a response, which has to be a success.
pub(super) fn request(address: SocketAddr, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    // HTTP/1.0, so that the response is not chunked.
    let head = format!("{method} {path} HTTP/1.0\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{answer}");
    body.to_owned()
}
