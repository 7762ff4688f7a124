//! A private Redis, with nothing on disk but its log.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::cargo::find_program;
use crate::private::{Private, with_our_end};

/// The environment variable with the `redis://` address of the tests' Redis.
pub const VARIABLE: &str = "REDIAL_TEST_REDIS";

const SCHEME: &str = "redis://";
const PING_WAIT: Duration = Duration::from_secs(1);

/// A private Redis, stopped on drop.
#[derive(Debug)]
pub struct Redis(Private);

impl Redis {
    /// Starts a server and waits until it answers.
    pub fn start() -> Result<Self, String> {
        let program = find_program("redis-server")
            .ok_or("redis-server is not installed: run `cargo xtask setup`")?;
        let start = |folder: &Path, address: SocketAddr| {
            let mut command = with_our_end(&program, None)?;
            command
                .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
                .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
                .args(["--logfile", "log", "--dir"])
                .arg(folder)
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            Ok(command)
        };
        Private::start("redis", start, |address| ping(&url(address))).map(Self)
    }

    /// The address for [`VARIABLE`].
    #[must_use]
    pub fn url(&self) -> String {
        url(self.0.address)
    }

    /// The folder that holds its log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0.folder.0
    }
}

fn url(address: SocketAddr) -> String {
    format!("{SCHEME}{address}")
}

/// Sends a PING to the server at a `redis://host:port` address.
pub fn ping(url: &str) -> Result<(), String> {
    let address: SocketAddr = url
        .strip_prefix(SCHEME)
        .and_then(|rest| rest.parse().ok())
        .ok_or_else(|| format!("`{url}` is not an address: write redis://IP:PORT"))?;
    let exchange = || -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, PING_WAIT)?;
        stream.set_read_timeout(Some(PING_WAIT))?;
        stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply)?;
        Ok(reply)
    };
    match exchange() {
        Ok(reply) if reply == "+PONG\r\n" => Ok(()),
        Ok(reply) => Err(format!("{url} answers PING with {reply:?}: is it a Redis?")),
        Err(error) => Err(format!("cannot reach {url}: {error}")),
    }
}
