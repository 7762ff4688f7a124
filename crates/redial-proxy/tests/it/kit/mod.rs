//! Raw HTTP/1.1 on blocking sockets.

mod upstream;
mod wire;

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, process};

use redial_policy::Problem;
use redial_policy::file::{AccessLog, Address, File};
use redial_proxy::Proxy;

pub(crate) use upstream::{Accepted, Upstream};
pub(crate) use wire::{Message, Wire};

/// Longer than anything takes unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A proxy with one upstream.
pub(crate) struct Running {
    pub(crate) proxy: Proxy,
    pub(crate) port: u16,
}

impl Running {
    /// With this `[upstream.app]`, except for `to`. The policy is `standard` unless the table names another.
    pub(crate) fn before(upstream: &Upstream, table: &str) -> Self {
        Self::to(&format!("\"http://127.0.0.1:{}\"", upstream.port), table)
    }

    pub(crate) fn to(targets: &str, table: &str) -> Self {
        Self::of(&format!("[upstream.app]\nto = {targets}\n{table}\n"))
    }

    pub(crate) fn of(text: &str) -> Self {
        let proxy = Proxy::start(&file(text)).unwrap_or_else(|error| panic!("{error}"));
        let port = port(&proxy, "app");
        Self { proxy, port }
    }

    pub(crate) fn connect(&self) -> Wire {
        Wire::connect(self.port)
    }

    /// Sends one request on a connection of its own.
    pub(crate) fn ask(&self, request: &str) -> Message {
        let mut caller = self.connect();
        caller.send(request);
        caller.response()
    }
}

/// A file, without an access log and without an admin address, whose default is one port for all.
pub(crate) fn file(text: &str) -> File {
    read(text).unwrap_or_else(|problem| panic!("{problem}"))
}

pub(crate) fn read(text: &str) -> Result<File, Problem> {
    let mut file = File::read(text)?;
    file.proxy.admin = None;
    file.proxy.log = AccessLog::None;
    Ok(file)
}

pub(crate) fn port(proxy: &Proxy, upstream: &str) -> u16 {
    let addresses = proxy.addresses();
    let (_, address) = addresses.iter().find(|(name, _)| name == upstream).unwrap();
    match address {
        Address::Tcp(address) => address.port(),
        Address::Unix(path) => panic!("{} is not TCP", path.display()),
    }
}

pub(crate) fn free_port() -> u16 {
    crate::ports::free_address().port()
}

/// A directory of this test, removed when dropped.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("redial-proxy-{}-{name}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
pub(crate) const GET: &str = "GET / HTTP/1.1\r\nhost: app\r\n\r\n";
