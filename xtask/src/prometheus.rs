//! A private Prometheus, for tests of metrics and rules.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::private::{Private, with_our_end};
use crate::setup::find_program;

const WAIT: Duration = Duration::from_secs(5);
const ERROR: &str = "prometheus is not installed: run `cargo xtask setup`";

/// A private Prometheus, stopped on drop.
#[derive(Debug)]
pub struct Prometheus(Private);

impl Prometheus {
    /// Starts a server with this config and these rules, which the config can refer to as `rules.yml`, and waits until it
    /// is ready.
    pub fn start(config: &str, rules: &str) -> Result<Self, String> {
        let program = find_program("prometheus").ok_or(ERROR)?;
        let start = |folder: &Path, address: SocketAddr| {
            let write = |name: &str, text: &str| {
                let path = folder.join(name);
                fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
            };
            write("rules.yml", rules)?;
            write("config.yml", config)?;
            let log = fs::File::create(folder.join("log"));
            let log = log.map_err(|error| format!("{}: {error}", folder.display()))?;
            let mut command = with_our_end(&program, None)?;
            command
                .arg(format!("--config.file={}", folder.join("config.yml").display()))
                .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
                .arg(format!("--web.listen-address={address}"))
                .arg("--log.level=warn")
                .stdout(Stdio::null())
                .stderr(log);
            Ok(command)
        };
        let ready = |address| get(address, "/-/ready").map(drop);
        Private::start("prometheus", start, ready).map(Self)
    }

    /// The response body for a path, such as `/api/v1/alerts`.
    pub fn get(&self, path: &str) -> Result<String, String> {
        get(self.0.address, path)
    }
}

fn get(address: SocketAddr, path: &str) -> Result<String, String> {
    let exchange = || -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, WAIT)?;
        stream.set_read_timeout(Some(WAIT))?;
        // HTTP/1.0, so that the response is not chunked.
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = exchange().map_err(|error| format!("cannot reach http://{address}: {error}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or_default();
    if status.contains(" 200 ") {
        return Ok(body.to_owned());
    }
    Err(format!("http://{address}{path} answers {status}: {body}"))
}
