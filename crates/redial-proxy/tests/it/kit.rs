//! Raw HTTP/1.1 on blocking sockets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs, process, thread};

use redial_policy::file::{Address, File};
use redial_proxy::Proxy;

/// Longer than anything takes unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

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

/// An upstream on loopback that does with each connection what a script says.
pub(crate) struct Upstream {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Message>>>,
    connections: Arc<AtomicUsize>,
    events: Receiver<&'static str>,
}

/// A connection that an upstream has accepted.
pub(crate) struct Accepted {
    pub(crate) wire: Wire,
    /// From 0.
    pub(crate) number: usize,
    requests: Arc<Mutex<Vec<Message>>>,
    events: Sender<&'static str>,
}

impl Accepted {
    /// The next request, which the test can look at later.
    pub(crate) fn request(&mut self) -> Option<Message> {
        let request = self.wire.request()?;
        self.requests.lock().unwrap().push(request.clone());
        Some(request)
    }

    pub(crate) fn respond(&mut self, response: &str) {
        self.wire.send(response);
    }

    /// Tells the test.
    pub(crate) fn tell(&self, event: &'static str) {
        self.events.send(event).unwrap();
    }
}

impl Upstream {
    pub(crate) fn new(script: impl Fn(&mut Accepted) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<Mutex<Vec<Message>>>::default();
        let connections = Arc::<AtomicUsize>::default();
        let (sender, events) = channel();
        let script = Arc::new(script);
        let (kept, count) = (Arc::clone(&requests), Arc::clone(&connections));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                stream.set_nodelay(true).unwrap();
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (requests, events) = (Arc::clone(&kept), sender.clone());
                let script = Arc::clone(&script);
                thread::spawn(move || {
                    let wire = Wire::new(stream);
                    script(&mut Accepted { wire, number, requests, events });
                });
            }
        });
        Self { port, requests, connections, events }
    }

    /// Answers each request with the same response.
    pub(crate) fn always(response: &'static str) -> Self {
        Self::new(move |accepted| {
            while accepted.request().is_some() {
                accepted.respond(response);
            }
        })
    }

    /// Answers the requests, on whatever connection they come, with these responses in turn, and then with the last.
    pub(crate) fn in_turn(responses: &'static [&'static str]) -> Self {
        let next = AtomicUsize::new(0);
        Self::new(move |accepted| {
            while accepted.request().is_some() {
                let place = next.fetch_add(1, Ordering::SeqCst).min(responses.len() - 1);
                accepted.respond(responses[place]);
            }
        })
    }

    /// The requests that have arrived.
    pub(crate) fn requests(&self) -> Vec<Message> {
        self.requests.lock().unwrap().clone()
    }

    /// The only request that has arrived.
    pub(crate) fn only_request(&self) -> Message {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests[0].clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// What a script has told last.
    pub(crate) fn event(&self) -> &'static str {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }
}

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

pub(crate) fn file(text: &str) -> File {
    File::read(text).unwrap_or_else(|problem| panic!("{problem}"))
}

pub(crate) fn port(proxy: &Proxy, upstream: &str) -> u16 {
    let addresses = proxy.addresses();
    let (_, address) = addresses.iter().find(|(name, _)| name == upstream).unwrap();
    match address {
        Address::Tcp(address) => address.port(),
        Address::Unix(path) => panic!("{} is not TCP", path.display()),
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
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
