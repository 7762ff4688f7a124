//! A private Redis, which a test can kill and start again on the same port.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

pub(crate) struct Redis {
    port: u16,
    child: Child,
}

impl Redis {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(options: &[&str]) -> Self {
        let port = crate::ports::free_address().port();
        let redis = Self { port, child: spawn(port, options) };
        redis.wait();
        redis
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// With SIGKILL: clients are not notified, and no data is kept.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, empty, on the same port.
    pub(crate) fn start_again(&mut self) {
        self.child = spawn(self.port, &[]);
        self.wait();
    }

    /// The reply to one command, in the wire format.
    pub(crate) fn ask(&self, command: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
        stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
        let mut answer = [0; 4096];
        let n = stream.read(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer[..n]).into_owned())
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(crate::program("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// A server that requires a password has started too.
    fn wait(&self) {
        let up = |answer: String| answer.starts_with("+PONG") || answer.starts_with("-NOAUTH");
        while !self.ask("PING").is_some_and(up) {
            std::thread::yield_now();
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(port: u16, options: &[&str]) -> Child {
    let mut command = crate::program("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir", "/tmp"]);
    command.args(["--save", "", "--appendonly", "no"]).args(options);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().expect("redis-server is not installed: run `cargo xtask setup`")
}
