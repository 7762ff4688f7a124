//! A server that speaks the protocol of Redis up to the tested reply, which never ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A reply to a script: its beginning, and then the same bytes repeated.
#[derive(Clone, Copy)]
pub(crate) struct Endless {
    pub(crate) begins: &'static str,
    pub(crate) goes_on: &'static str,
}

/// A string of announced length, an endless line, and endless values: alone, nested, and in the types of RESP 3.
pub(crate) const ENDLESS: [Endless; 9] = [
    Endless { begins: "$104857600\r\n", goes_on: "xxxxxxxx" },
    Endless { begins: "*2\r\n$8\r\nfinished\r\n$104857600\r\n", goes_on: "xxxxxxxx" },
    Endless { begins: "+", goes_on: "OK OK OK" },
    Endless { begins: "-ERR ", goes_on: "no no no " },
    Endless { begins: "*1000000000\r\n", goes_on: ":1\r\n:1\r\n" },
    Endless { begins: "", goes_on: "*100\r\n" },
    Endless { begins: "%1000000000\r\n", goes_on: "+a\r\n:1\r\n" },
    Endless { begins: "=-1\r\n", goes_on: "+a\r\n+b\r\n" },
    Endless { begins: "$000000000000000000000000", goes_on: "00000000" },
];

/// No more than two socket buffers and our own hold; the reply has 100 MB.
pub(crate) const FEW_BYTES: usize = 32 << 20;
const ALL_BYTES: usize = 100 << 20;

pub(crate) struct FakeRedis {
    pub(crate) url: String,
    /// The most bytes of the endless reply that a client has read.
    written: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl FakeRedis {
    pub(crate) fn start(reply: Endless) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let (written, closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let fake = Self { url, written: written.clone(), closed: closed.clone() };
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (written, closed) = (written.clone(), closed.clone());
                thread::spawn(move || {
                    serve(stream, reply, &written);
                    closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        fake
    }

    /// How much the first client read before it disconnected.
    #[track_caller]
    pub(crate) fn written(&self) -> usize {
        for _ in 0..6_000 {
            if self.closed.load(Ordering::SeqCst) > 0 {
                return self.written.load(Ordering::SeqCst);
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the client does not disconnect");
    }
}

fn serve(mut stream: TcpStream, reply: Endless, written: &AtomicUsize) {
    let mut buffer = vec![0; 65_536];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..n]).into_owned();
        if text.contains("EVAL") {
            return pour(stream, reply, written);
        }
        for command in text.split('*').skip(1) {
            let answer = if command.contains("TIME") {
                "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n"
            } else {
                "+OK\r\n"
            };
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn pour(mut stream: TcpStream, reply: Endless, written: &AtomicUsize) {
    let chunk = reply.goes_on.repeat(8_192);
    let mut sent = stream.write(reply.begins.as_bytes()).unwrap_or(0);
    while sent < ALL_BYTES {
        match stream.write(chunk.as_bytes()) {
            Ok(n @ 1..) => sent += n,
            _ => break,
        }
    }
    written.fetch_max(sent, Ordering::SeqCst);
}
