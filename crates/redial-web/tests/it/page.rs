//! A page's server, and requests to it as they are on the wire.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use redial_web::{App, Listen, Token, Web};
use tokio::runtime::{Builder, Handle};
use tokio::task::spawn_blocking;
use tokio::time;

/// A server that runs until the test program ends.
pub(crate) struct Page {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    /// Runs the server, and what a test spawns.
    pub(crate) runtime: Handle,
}

/// The clock of a server, which stands still unless a test moves it.
pub(crate) struct Clock {
    forward: mpsc::Sender<Duration>,
    moved: mpsc::Receiver<()>,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    /// The status line and the headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Page {
    pub(crate) fn new(app: App) -> Self {
        Self::at("127.0.0.1:0", &[], app)
    }

    /// A server whose time is that of a clock. Connections are real.
    pub(crate) fn with_clock(app: App) -> (Self, Clock) {
        let (forward, asked) = mpsc::channel();
        let (moves, moved) = mpsc::channel();
        let page = Self::start("127.0.0.1:0", &[], app, || {
            time::pause();
            tokio::spawn(keep_time(asked, moves));
        });
        (page, Clock { forward, moved })
    }

    pub(crate) fn at(address: &str, hosts: &[&str], app: App) -> Self {
        Self::start(address, hosts, app, || {})
    }

    fn start(
        address: &str,
        hosts: &[&str],
        app: App,
        prepare: impl FnOnce() + Send + 'static,
    ) -> Self {
        let token = Token::new().unwrap();
        let listen = Listen::new(address.parse().unwrap(), token.clone())
            .allow_hosts(hosts.iter().map(|host| (*host).to_owned()));
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                prepare();
                let web = Web::bind(listen).await.unwrap();
                sender.send((web.address(), Handle::current())).unwrap();
                web.serve(app).await;
            });
        });
        let (address, runtime) = receiver.recv().unwrap();
        Self { address, token: token.reveal().to_owned(), runtime }
    }

    /// Does something on the server's thread, at its time.
    pub(crate) fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let (done, is_done) = mpsc::channel();
        self.runtime.spawn(async move {
            work.await;
            done.send(()).unwrap();
        });
        is_done.recv().unwrap();
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The `Host` header of this server.
    pub(crate) fn host(&self) -> String {
        format!("Host: 127.0.0.1:{}", self.port())
    }

    pub(crate) fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.token)
    }

    pub(crate) fn cookie(&self) -> String {
        format!("Cookie: other=1; redial_{}={}", self.port(), self.token)
    }

    /// Sends a request with exactly these headers.
    pub(crate) fn raw(&self, line: &str, headers: &[&str], body: &[u8]) -> Response {
        let mut stream = self.connect();
        let mut text = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        headers.iter().for_each(|header| text.push_str(&format!("{header}\r\n")));
        if !body.is_empty() {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        // A server that refuses the head need not read the body.
        let _ = stream.write_all(body);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let all = String::from_utf8(all).unwrap();
        let (head, body) = all.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// Sends a request of a program that knows the token.
    pub(crate) fn get(&self, path: &str) -> Response {
        self.raw(&format!("GET {path}"), &[&self.host(), &self.bearer()], b"")
    }

    /// The status of a GET of the user's browser, with one more header.
    pub(crate) fn status_with(&self, header: &str) -> u16 {
        self.raw("GET /api/hello", &[&self.host(), &self.cookie(), header], b"").status
    }

    /// Follows a stream of events. The first lines are the head.
    pub(crate) fn follow(&self, path: &str, header: &str) -> BufReader<TcpStream> {
        let mut stream = self.connect();
        let text = format!(
            "GET {path} HTTP/1.1\r\n{}\r\n{}\r\n{header}\r\n\r\n",
            self.host(),
            self.bearer()
        );
        let text = text.replace("\r\n\r\n\r\n", "\r\n\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        BufReader::new(stream)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        // Only ends a test that has failed.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }
}

impl Clock {
    pub(crate) fn advance(&self, time: Duration) {
        self.forward.send(time).unwrap();
        self.moved.recv().unwrap();
    }
}

/// Moves the time when it is asked to. A paused clock would move to the next timer by itself whenever the server is idle,
/// but not while a blocking task runs.
async fn keep_time(mut asked: mpsc::Receiver<Duration>, moves: mpsc::Sender<()>) {
    loop {
        let wait = spawn_blocking(move || (asked.recv(), asked));
        let (time, again) = wait.await.unwrap();
        let Ok(time) = time else { return time::resume() };
        time::advance(time).await;
        moves.send(()).unwrap();
        asked = again;
    }
}

impl Response {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// Reads lines until one begins like this, and returns the rest of it.
pub(crate) fn until(stream: &mut impl BufRead, prefix: &str) -> String {
    loop {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the stream ended before {prefix:?}");
        if let Some(rest) = line.strip_prefix(prefix) {
            return rest.trim_end().to_owned();
        }
    }
}
