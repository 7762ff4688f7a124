use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::PATIENCE;

/// A connection, and what was read from it and not yet taken.
pub(crate) struct Wire<S = TcpStream> {
    pub(crate) stream: S,
    buffer: Vec<u8>,
}

/// A request or a response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    /// The first line.
    pub(crate) start: String,
    /// In the order of the message, with names in lower case.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    /// The head as it was received.
    pub(crate) raw: String,
}

impl Message {
    pub(crate) fn status(&self) -> u16 {
        self.start.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// The names of all fields, sorted: their order has no meaning.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.fields.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    fn is_chunked(&self) -> bool {
        self.get("transfer-encoding").is_some_and(|it| it.eq_ignore_ascii_case("chunked"))
    }
}

impl Wire {
    pub(crate) fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::new(stream)
    }

    /// Whether the peer has closed the connection by now, and nothing is left to read.
    pub(crate) fn is_closed_now(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        !matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    pub(crate) fn end_sending(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Ends with a reset instead of an orderly close.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
}

impl<S: Read + Write> Wire<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
        self.stream.flush().unwrap();
    }

    /// Reads more; false at the end of the stream.
    fn fill(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.buffer.extend_from_slice(&bytes[..count]);
                true
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&self.buffer)),
        }
    }

    /// Takes what comes before `end`, and `end`. `None` if the stream ends before.
    fn until(&mut self, end: &str) -> Option<String> {
        loop {
            let found = self.buffer.windows(end.len()).position(|it| it == end.as_bytes());
            if let Some(at) = found {
                let rest = self.buffer.split_off(at + end.len());
                let taken = std::mem::replace(&mut self.buffer, rest);
                return Some(String::from_utf8(taken).unwrap());
            }
            if !self.fill() {
                return None;
            }
        }
    }

    pub(crate) fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            assert!(self.fill(), "ended after {:?}", String::from_utf8_lossy(&self.buffer));
        }
        let rest = self.buffer.split_off(count);
        std::mem::replace(&mut self.buffer, rest)
    }

    /// The rest of the stream.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.buffer)
    }

    /// The next head; `None` at the end of the stream.
    pub(crate) fn head(&mut self) -> Option<Message> {
        let raw = self.until("\r\n\r\n")?;
        let mut lines = raw.trim_end().split("\r\n");
        let start = lines.next().unwrap().to_owned();
        Some(Message { start, fields: fields(lines), raw: raw.clone(), ..Message::default() })
    }

    /// The next request; `None` at the end of the stream.
    pub(crate) fn request(&mut self) -> Option<Message> {
        let mut message = self.head()?;
        if message.is_chunked() {
            self.chunks(&mut message);
        } else if let Some(length) = message.get("content-length") {
            message.body = self.exactly(length.parse().unwrap());
        }
        Some(message)
    }

    /// The next response to a method other than HEAD.
    pub(crate) fn response(&mut self) -> Message {
        let mut message = self.head().expect("a response");
        if message.is_chunked() {
            self.chunks(&mut message);
        } else if let Some(length) = message.get("content-length") {
            message.body = self.exactly(length.parse().unwrap());
        } else if !matches!(message.status(), 100..=199 | 204 | 304) {
            message.body = self.rest();
        }
        message
    }

    fn chunks(&mut self, message: &mut Message) {
        loop {
            let size = self.until("\r\n").expect("the size of a chunk");
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            if size == 0 {
                break;
            }
            message.body.extend(self.exactly(size));
            assert_eq!(self.exactly(2), b"\r\n");
        }
        loop {
            match self.until("\r\n").expect("the end of the trailers").trim_end() {
                "" => return,
                line => message.trailers.extend(fields([line].into_iter())),
            }
        }
    }

    /// Whether the peer has closed the connection without sending more.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && !self.fill()
    }
}

fn fields<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    let field = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    lines.map(field).collect()
}
