//! Asks a sidecar whether it is ready, for containers without curl.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use redial_policy::file::Address;

use crate::failed::Failed;

const TIMEOUT: Duration = Duration::from_secs(1);
const REQUEST: &[u8] = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

pub(super) fn ask(address: &Address) -> Result<(), Failed> {
    let status = match address {
        Address::Tcp(to) => TcpStream::connect_timeout(to, TIMEOUT).and_then(|stream| {
            stream.set_read_timeout(Some(TIMEOUT))?;
            status(stream)
        }),
        Address::Unix(path) => UnixStream::connect(path).and_then(|stream| {
            stream.set_read_timeout(Some(TIMEOUT))?;
            status(stream)
        }),
    };
    match status {
        Ok(status) if status == "200" => Ok(()),
        Ok(status) => Err(Failed::Other(format!("{address}: not ready (status {status})"))),
        Err(error) => Err(Failed::Other(format!("{address}: {error}"))),
    }
}

/// The status code of the answer.
fn status(mut stream: impl Read + Write) -> io::Result<String> {
    stream.write_all(REQUEST)?;
    let mut line = [0; "HTTP/1.1 200".len()];
    stream.read_exact(&mut line)?;
    let status = line.strip_prefix(b"HTTP/1.1 ").and_then(|status| str::from_utf8(status).ok());
    status.map(str::to_owned).ok_or_else(|| io::Error::other("the answer is not HTTP"))
}
