//! Upstreams that fail in every way that a seed can think of, and die now and then.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

use super::message::{Wire, content, in_chunks};

/// What a server does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fate {
    Whole,
    Chunked,
    /// In pieces with pauses.
    Slow,
    Error(u16),
    Close,
    Reset,
    CutHead,
    Garbage,
    Stall,
    /// The body ends before its length.
    Short,
    /// A chunked body without its end.
    CutChunks,
    /// Another response follows that nothing has asked for.
    Long,
    /// A coding, and a length that is wrong.
    TwoLengths,
    /// A response before the request has been read, and then the end.
    Early,
}

pub(super) const FATES: [Fate; 16] = [
    Fate::Whole,
    Fate::Chunked,
    Fate::Slow,
    Fate::Error(500),
    Fate::Error(503),
    Fate::Error(429),
    Fate::Close,
    Fate::Reset,
    Fate::CutHead,
    Fate::Garbage,
    Fate::Stall,
    Fate::Short,
    Fate::CutChunks,
    Fate::Long,
    Fate::TwoLengths,
    Fate::Early,
];

impl Fate {
    /// Half of all requests are served well.
    fn draw(seed: u64, number: u64, attempt: u64) -> Self {
        let draw = redial_core::draw(redial_core::draw(seed, number), attempt);
        match draw % 2 {
            0 => Self::Whole,
            _ => FATES[(draw >> 8) as usize % FATES.len()],
        }
    }
}

/// What all servers know.
pub(super) struct Upstreams {
    seed: u64,
    servers: Vec<Server>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The fates of each request, by its number.
    fates: HashMap<u64, Vec<Fate>>,
    /// What a proxy must not do.
    wrong: Vec<String>,
}

struct Server {
    port: u16,
    /// Keeps the port while the server is dead.
    _reservation: Socket,
    alive: Mutex<Option<TcpListener>>,
    connections: Mutex<Vec<TcpStream>>,
}

fn bound(port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], port)).into())?;
    Ok(socket)
}

impl Upstreams {
    pub(super) fn start(seed: u64, count: usize) -> Arc<Self> {
        let server = || {
            let reservation = bound(0).unwrap();
            let port = reservation.local_addr().unwrap().as_socket().unwrap().port();
            let (alive, connections) = (Mutex::default(), Mutex::default());
            Server { port, _reservation: reservation, alive, connections }
        };
        let servers = (0..count).map(|_| server()).collect();
        let upstreams = Arc::new(Self { seed, servers, seen: Mutex::default() });
        (0..count).for_each(|server| upstreams.revive(server));
        upstreams
    }

    pub(super) fn ports(&self) -> Vec<u16> {
        self.servers.iter().map(|server| server.port).collect()
    }

    /// Closes the listener of a server and all of its connections.
    pub(super) fn kill(&self, server: usize) {
        let server = &self.servers[server];
        if let Some(listener) = server.alive.lock().unwrap().take() {
            SockRef::from(&listener).shutdown(Shutdown::Both).unwrap();
        }
        for stream in server.connections.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn revive(self: &Arc<Self>, server: usize) {
        let mut alive = self.servers[server].alive.lock().unwrap();
        if alive.is_some() {
            return;
        }
        let socket = bound(self.servers[server].port).unwrap();
        socket.listen(1024).unwrap();
        let listener = TcpListener::from(socket);
        *alive = Some(listener.try_clone().unwrap());
        let upstreams = Arc::clone(self);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = stream.try_clone().unwrap();
                upstreams.servers[server].connections.lock().unwrap().push(kept);
                let upstreams = Arc::clone(&upstreams);
                thread::spawn(move || upstreams.serve(stream));
            }
        });
    }

    /// Ends with the connection; how it ends does not matter.
    fn serve(&self, stream: TcpStream) {
        let closing = stream.try_clone();
        if let Ok(mut wire) = Wire::new(stream) {
            while let Ok(Some(fate)) = self.answer(&mut wire) {
                if fate == Fate::Reset {
                    wire.reset();
                    break;
                }
            }
        }
        // The clone in the list would keep it open.
        let _ = closing.map(|stream| stream.shutdown(Shutdown::Both));
    }

    /// Answers one request. `None` if the connection ends.
    fn answer(&self, wire: &mut Wire) -> io::Result<Option<Fate>> {
        let head = wire.head()?;
        let number = head.get("number").and_then(|it| it.parse().ok()).unwrap_or(0);
        let is_repeatable = head.start.starts_with("GET ") || head.get("idempotency-key").is_some();
        let fate = self.record(number, is_repeatable, &head.start);
        let length = head.get("wanted").and_then(|it| it.parse().ok()).unwrap_or(0);
        let bytes = content(number, length);
        if fate == Fate::Early {
            wire.send(&whole(200, number, &bytes, "connection: close\r\n"))?;
            return Ok(None);
        }
        let body = wire.body(&head);
        if !body.is_whole {
            return Ok(None);
        }
        if body.bytes != content(number, body.bytes.len()) {
            self.seen.lock().unwrap().wrong.push(format!("{number} arrived with another body"));
        }
        let goes_on = self.respond(wire, fate, number, &bytes)?;
        Ok(goes_on.then_some(fate))
    }

    /// Draws the fate of an attempt.
    fn record(&self, number: u64, is_repeatable: bool, start: &str) -> Fate {
        let seen = &mut *self.seen.lock().unwrap();
        let fates = seen.fates.entry(number).or_default();
        if !is_repeatable && fates.iter().any(|fate| *fate != Fate::Error(429)) {
            seen.wrong.push(format!("{start} ({number}) was repeated after {fates:?}"));
        }
        let fate = Fate::draw(self.seed, number, fates.len() as u64);
        fates.push(fate);
        fate
    }

    /// Whether the connection goes on.
    fn respond(&self, wire: &mut Wire, fate: Fate, number: u64, bytes: &[u8]) -> io::Result<bool> {
        let chunked = |more: &str| {
            let head =
                format!("HTTP/1.1 200 OK\r\nnumber: {number}\r\ntransfer-encoding: chunked\r\n");
            [head.as_bytes(), more.as_bytes(), b"\r\n"].concat()
        };
        let good = whole(200, number, bytes, "");
        let head = good.len() - bytes.len();
        match fate {
            Fate::Whole | Fate::Early => wire.send(&good)?,
            Fate::Chunked | Fate::TwoLengths => {
                let lie = if fate == Fate::Chunked { "" } else { "content-length: 3\r\n" };
                let end = b"0\r\nchecked: yes\r\n\r\n";
                wire.send(&[&chunked(lie)[..], &in_chunks(bytes, 5000), end].concat())?;
            }
            Fate::Slow => {
                for piece in good.chunks(good.len() / 4 + 1) {
                    wire.send(piece)?;
                    thread::park_timeout(Duration::from_millis(5));
                }
            }
            Fate::Error(status) => wire.send(&whole(status, number, bytes, ""))?,
            Fate::Close => return Ok(false),
            Fate::Reset => {}
            Fate::CutHead => wire.send(&good[..head / 2])?,
            Fate::Garbage => wire.send(b"\x16\x03\x01 this is not HTTP\r\n\r\n")?,
            Fate::Stall => drop(wire.head()),
            Fate::Short => wire.send(&good[..head + bytes.len() / 2])?,
            Fate::CutChunks => {
                wire.send(
                    &[&chunked("")[..], &in_chunks(&bytes[..bytes.len() / 2], 700)].concat(),
                )?;
            }
            Fate::Long => wire.send(&[&good[..], &whole(200, u64::MAX, b"stray", "")].concat())?,
        }
        Ok(matches!(
            fate,
            Fate::Whole | Fate::Chunked | Fate::Slow | Fate::Error(_) | Fate::Reset | Fate::Long
        ))
    }

    /// How often each fate happened.
    pub(super) fn count(&self) -> HashMap<Fate, usize> {
        let mut count = HashMap::new();
        for fate in self.seen.lock().unwrap().fates.values().flatten() {
            *count.entry(*fate).or_default() += 1;
        }
        count
    }

    pub(super) fn wrong(&self) -> Vec<String> {
        self.seen.lock().unwrap().wrong.clone()
    }

    /// Forgets the requests of a round.
    pub(super) fn forget(&self) {
        self.seen.lock().unwrap().fates.clear();
        for server in &self.servers {
            server.connections.lock().unwrap().retain(|stream| stream.peer_addr().is_ok());
        }
    }
}

fn whole(status: u16, number: u64, body: &[u8], more: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\nnumber: {number}\r\ncontent-length: {length}\r\n{more}\r\n"
    );
    [head.as_bytes(), body].concat()
}
