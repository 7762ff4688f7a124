use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A receiver that accepts everything and counts requests.
pub(super) struct Sink {
    address: SocketAddr,
    got: Arc<Mutex<BTreeMap<String, Got>>>,
}

/// The requests with one body.
#[derive(Clone, Debug, Default)]
pub(super) struct Got {
    /// The number of the attempt and the idempotency key of each request.
    pub(super) requests: Vec<(u32, String)>,
}

impl Sink {
    pub(super) fn start() -> Self {
        Self::start_slow(0)
    }

    /// Responds so many milliseconds after it has counted a request.
    pub(super) fn start_slow(millis: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let got = Arc::new(Mutex::new(BTreeMap::new()));
        let shared = Arc::clone(&got);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let got = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &got, Duration::from_millis(millis)));
            }
        });
        Self { address, got }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// How many requests there were.
    pub(super) fn count(&self) -> u64 {
        self.got.lock().unwrap().values().map(|one| one.requests.len() as u64).sum()
    }

    pub(super) fn got(&self) -> BTreeMap<String, Got> {
        self.got.lock().unwrap().clone()
    }
}

/// Responds until the peer closes the connection. A complete request counts, whether or not the response arrives.
#[allow(clippy::disallowed_methods, reason = "a receiver that takes its time")]
fn serve(stream: TcpStream, got: &Mutex<BTreeMap<String, Got>>, delay: Duration) -> Option<()> {
    let mut to = stream.try_clone().ok()?;
    let mut from = BufReader::new(stream);
    loop {
        let (mut length, mut key, mut attempt) = (0, String::new(), 1);
        loop {
            let mut line = String::new();
            if from.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line == "\r\n" {
                break;
            }
            match line.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("idempotency-key", value)) => value.clone_into(&mut key),
                Some(("redial-attempt", value)) => attempt = value.parse().unwrap(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body).ok()?;
        {
            let mut all = got.lock().unwrap();
            let one = all.entry(String::from_utf8(body).unwrap()).or_default();
            one.requests.push((attempt, key));
        }
        std::thread::sleep(delay);
        to.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
    }
}
