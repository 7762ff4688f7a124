//! Messages whose peer may vanish at any byte.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::kit::PATIENCE;

/// A connection.
pub(super) struct Wire {
    reader: BufReader<TcpStream>,
}

#[derive(Debug, Default)]
pub(super) struct Head {
    /// The first line.
    pub(super) start: String,
    /// With names in lower case.
    fields: Vec<(String, String)>,
}

/// The body of a message, as far as it was received.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    pub(super) is_whole: bool,
}

impl Head {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn has(&self, name: &str, value: &str) -> bool {
        self.get(name).is_some_and(|it| it.eq_ignore_ascii_case(value))
    }

    pub(super) fn status(&self) -> u16 {
        self.start.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Ends with a reset.
    pub(super) fn reset(self) {
        let _ = socket2::SockRef::from(self.reader.get_ref()).set_linger(Some(Duration::ZERO));
    }

    /// Whether bytes were received that nothing has asked for.
    pub(super) fn has_more(&self) -> bool {
        !self.reader.buffer().is_empty()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    pub(super) fn head(&mut self) -> io::Result<Head> {
        let mut head = Head { start: self.line()?, ..Head::default() };
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(head);
            }
            let (name, value) = line.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
            head.fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// The body after a head, without one unless the head says so.
    pub(super) fn body(&mut self, head: &Head) -> Body {
        let mut body = Body::default();
        let read = match head.get("content-length").map(str::parse) {
            _ if head.has("transfer-encoding", "chunked") => self.chunks(&mut body.bytes),
            Some(Ok(length)) => self.exactly(length, &mut body.bytes),
            _ => Ok(()),
        };
        body.is_whole = read.is_ok();
        body
    }

    fn exactly(&mut self, length: u64, into: &mut Vec<u8>) -> io::Result<()> {
        let read = (&mut self.reader).take(length).read_to_end(into)?;
        if read as u64 == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn chunks(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let size = u64::from_str_radix(&self.line()?, 16).map_err(io::Error::other)?;
            self.exactly(size, into)?;
            if size == 0 {
                while !self.line()?.is_empty() {}
                return Ok(());
            }
            self.line()?;
        }
    }
}

/// What a message with this number contains. No two numbers have the same.
pub(super) fn content(number: u64, length: usize) -> Vec<u8> {
    let unit = format!("{number:012}\n").into_bytes();
    unit.into_iter().cycle().take(length).collect()
}

/// A body in chunks of at most so many bytes, without the last chunk.
pub(super) fn in_chunks(body: &[u8], most: usize) -> Vec<u8> {
    let chunk = |part: &[u8]| [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
    body.chunks(most).flat_map(chunk).collect()
}
