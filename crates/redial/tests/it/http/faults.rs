//! A server that misbehaves on purpose: HTTP/1.1 and raw HTTP/2 over real sockets of the loopback.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What is done with one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Reads the request, writes this, and keeps the connection.
    Say(&'static str),
    /// As `Say`, and closes.
    SayAndClose(&'static str),
    /// Resets the connection before it reads anything.
    ResetAtOnce,
    /// Reads the request and resets.
    ResetAfterReading,
    /// Reads the request and closes its own side in good order.
    HalfClose,
    /// Writes half of a response's head and resets.
    ResetInHead,
    /// Writes the head and a part of the body, and resets.
    ResetInBody,
    /// Answers after the head of the request, without reading its body, and closes.
    RefuseUnread(&'static str),
    /// Reads and never answers.
    Silence,
}

pub(crate) const OK: Act = Act::Say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
pub(crate) const BUSY: Act =
    Act::Say("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy");

pub(crate) struct FaultServer {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The last act first.
    acts: Mutex<Vec<Act>>,
    requests: Mutex<Vec<String>>,
    open: AtomicUsize,
    accepted: AtomicUsize,
}

impl FaultServer {
    /// Acts from the list, one per request, then with the last of it.
    pub(crate) async fn start(acts: &[Act]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        *state.acts.lock().unwrap() = acts.iter().rev().copied().collect();
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                state.accepted.fetch_add(1, Ordering::SeqCst);
                state.open.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    state.serve(stream).await;
                    state.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, state }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests that were read, head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.requests.lock().unwrap().clone()
    }

    /// Connections that are open right now.
    pub(crate) fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    /// Connections that were ever made.
    pub(crate) fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::SeqCst)
    }
}

impl State {
    fn next(&self) -> Act {
        let mut acts = self.acts.lock().unwrap();
        if acts.len() > 1 { acts.pop().unwrap() } else { acts[0] }
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        loop {
            // The act is chosen when a request arrives, not when a connection does.
            let mut first = [0];
            if !matches!(stream.peek(&mut first).await, Ok(1)) {
                return;
            }
            let act = self.next();
            if matches!(act, Act::ResetAtOnce) {
                reset_on_close(&stream);
                return;
            }
            let body = !matches!(act, Act::RefuseUnread(_));
            let Some(request) = read_request(&mut stream, &mut buffer, body).await else { return };
            self.requests.lock().unwrap().push(request);
            match act {
                Act::Say(text) => {
                    let _ = stream.write_all(text.as_bytes()).await;
                    continue;
                }
                Act::SayAndClose(text) | Act::RefuseUnread(text) => {
                    let _ = stream.write_all(text.as_bytes()).await;
                }
                Act::ResetAtOnce | Act::ResetAfterReading => reset_on_close(&stream),
                Act::HalfClose => {
                    let _ = stream.shutdown().await;
                    let _ = stream.read(&mut [0; 64]).await;
                }
                Act::ResetInHead => {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-le").await;
                    reset_on_close(&stream);
                }
                Act::ResetInBody => {
                    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\npart";
                    let _ = stream.write_all(head).await;
                    reset_on_close(&stream);
                }
                Act::Silence => {
                    let _ = stream.read(&mut [0; 64]).await;
                }
            }
            return;
        }
    }
}

/// Reads one request; its body only if `whole`.
async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>, whole: bool) -> Option<String> {
    let mut chunk = [0; 4096];
    let head = loop {
        if let Some(end) = find(buffer, b"\r\n\r\n") {
            break end + 4;
        }
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        buffer.extend_from_slice(&chunk[..read]);
    };
    let text = String::from_utf8_lossy(&buffer[..head]).to_lowercase();
    let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let chunked = text.contains("transfer-encoding: chunked");
    let done = |buffer: &[u8]| match length {
        _ if !whole => true,
        Some(length) => buffer.len() >= head + length.trim().parse::<usize>().unwrap(),
        None if chunked => buffer[head..].ends_with(b"0\r\n\r\n"),
        None => true,
    };
    while !done(buffer) {
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        buffer.extend_from_slice(&chunk[..read]);
    }
    Some(String::from_utf8_lossy(&std::mem::take(buffer)).into_owned())
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Closing then sends a reset instead of an end.
fn reset_on_close(stream: &TcpStream) {
    stream.set_zero_linger().unwrap();
}

/// What an HTTP/2 server does with each stream that is opened, on connections of one stream each.
#[derive(Clone, Copy, Debug)]
pub(crate) enum H2Act {
    /// RST_STREAM with this code.
    Reset(u32),
    /// GOAWAY with this last stream and code, then the connection closes.
    GoAway { last: u32, code: u32 },
    /// An empty response with status 200.
    Status200,
    /// Nothing.
    Ignore,
}

pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const INTERNAL_ERROR: u32 = 2;

/// An HTTP/2 server that writes frames by hand. Streams are counted over all connections.
pub(crate) async fn h2_server(acts: &[H2Act]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let streams = Arc::new(AtomicUsize::new(0));
    let (seen, acts) = (Arc::clone(&streams), Arc::<[H2Act]>::from(acts));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (seen, acts) = (Arc::clone(&seen), Arc::clone(&acts));
            tokio::spawn(async move {
                let mut preface = [0; 24];
                stream.read_exact(&mut preface).await.unwrap();
                stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
                while let Some((kind, flags, id)) = read_frame(&mut stream).await {
                    if kind == 4 && flags & 1 == 0 {
                        let _ = stream.write_all(&frame(4, 1, 0, &[])).await;
                    }
                    if kind != 1 {
                        continue;
                    }
                    let nth = seen.fetch_add(1, Ordering::SeqCst);
                    match acts[nth.min(acts.len() - 1)] {
                        H2Act::Reset(code) => {
                            let _ = stream.write_all(&frame(3, 0, id, &code.to_be_bytes())).await;
                        }
                        H2Act::GoAway { last, code } => {
                            let body = [last.to_be_bytes(), code.to_be_bytes()].concat();
                            let _ = stream.write_all(&frame(7, 0, 0, &body)).await;
                            let _ = stream.shutdown().await;
                        }
                        H2Act::Ignore => {}
                        // `:status: 200` is entry 8 of HPACK's static table.
                        H2Act::Status200 => {
                            let _ = stream.write_all(&frame(1, 5, id, &[0x88])).await;
                        }
                    }
                }
            });
        }
    });
    (address, streams)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

async fn read_frame(stream: &mut TcpStream) -> Option<(u8, u8, u32)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    stream.read_exact(&mut vec![0; length]).await.ok()?;
    Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]])))
}
