//! `redial proxy` as a process, between real sockets, programs and signals.

mod admin;
mod program;
mod reload;
mod systemd;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Scratch, eventually, exit_code, program};

const REDIAL: &str = env!("CARGO_BIN_EXE_redial");

/// An upstream on loopback.
struct Server {
    port: u16,
    /// The heads of all requests.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers the n-th request (from 0) for a path with what `status` returns.
    fn new(status: impl Fn(usize, &str) -> u16 + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (seen, status) = (Arc::clone(&requests), Arc::new(status));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, status) = (Arc::clone(&seen), Arc::clone(&status));
                std::thread::spawn(move || serve(stream.unwrap(), &seen, &*status));
            }
        });
        Self { port, requests }
    }

    fn ok() -> Self {
        Self::new(|_, _| 200)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<String>>, status: &dyn Fn(usize, &str) -> u16) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(head) = head(&mut reader) {
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(head.clone());
            seen.len() - 1
        };
        let path = head.split(' ').nth(1).unwrap();
        let status = status(number, path);
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nok");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The next head; `None` at the end.
fn head(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// Sends a request on a connection of its own. Returns the status and the rest of the response.
fn ask(port: u16, method: &str, path: &str, fields: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    stream.write_all(format!("{head}{fields}\r\n").as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let status = response.split(' ').nth(1).unwrap().parse().unwrap();
    (status, response)
}

fn get(port: u16, path: &str) -> u16 {
    ask(port, "GET", path, "").0
}

/// A sidecar that runs; it is killed when this is dropped.
struct Sidecar {
    child: Child,
    files: Scratch,
}

impl Sidecar {
    /// Starts it with a file, whose `admin` and `listen` are free ports unless it says otherwise.
    fn start(file: &str) -> Self {
        let files = Scratch::new("proxy");
        let path = files.file("proxy.toml", file);
        let log = std::fs::File::create(files.path("log")).unwrap();
        let mut command = program(REDIAL);
        command.args(["proxy", &path]).stderr(log).stdin(Stdio::null());
        let sidecar = Self { child: command.spawn().unwrap(), files };
        sidecar.await_log("listens on");
        sidecar
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.files.path("log")).unwrap()
    }

    #[track_caller]
    fn await_log(&self, text: &str) {
        eventually(|| self.log().contains(text));
    }

    /// The port that is logged for an upstream, or for admin.
    #[track_caller]
    fn port(&self, name: &str) -> u16 {
        let start = format!("redial: {name} listens on 127.0.0.1:");
        self.await_log(&start);
        let mut port = None;
        // The line may be half written.
        eventually(|| {
            let log = self.log();
            let line = log.split(&start).nth(1).unwrap();
            port = line.split_once('\n').and_then(|(port, _)| port.parse().ok());
            port.is_some()
        });
        port.unwrap()
    }

    fn write(&self, file: &str) {
        // A file is replaced as editors and ConfigMaps do it.
        let new = self.files.file("new.toml", file);
        std::fs::rename(new, self.files.path("proxy.toml")).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    #[track_caller]
    fn end(&mut self) -> Option<i32> {
        exit_code(&mut self.child)
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const FREE: &str = "[proxy]\nadmin = \"127.0.0.1:0\"\n";

/// The table of an upstream on a free port.
fn upstream(name: &str, server: &Server, more: &str) -> String {
    let to = server.url();
    format!("[upstream.{name}]\nto = \"{to}\"\nlisten = \"127.0.0.1:0\"\n{more}\n")
}

/// Clients that send requests one after the other until they are stopped.
struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<Vec<String>>>,
}

impl Load {
    /// Half of the clients keep their connection, as long as responses do not say that it is closed.
    fn start(port: u16, clients: usize) -> Self {
        let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let client = |number: usize| {
            let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
            std::thread::spawn(move || {
                let mut failures = Vec::new();
                let mut connection = None;
                while !stop.load(Ordering::Relaxed) && failures.is_empty() {
                    match request(port, &mut connection, number.is_multiple_of(2)) {
                        Ok(()) => drop(sent.fetch_add(1, Ordering::Relaxed)),
                        Err(failure) => failures.push(failure),
                    }
                }
                failures
            })
        };
        let threads = (0..clients).map(client).collect();
        Self { stop, sent, threads }
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Stops the clients, and returns what failed.
    fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

fn request(
    port: u16,
    connection: &mut Option<BufReader<TcpStream>>,
    keep: bool,
) -> Result<(), String> {
    let mut reader = match connection.take() {
        Some(reader) => reader,
        None => {
            let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|it| it.to_string())?;
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            BufReader::new(stream)
        }
    };
    let end = if keep { "" } else { "connection: close\r\n" };
    let request = format!("GET / HTTP/1.1\r\nhost: app\r\n{end}\r\n");
    reader.get_mut().write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let head = head(&mut reader).ok_or("no response")?;
    let mut body = [0; 2];
    if !head.starts_with("HTTP/1.1 200") {
        return Err(head);
    }
    reader.read_exact(&mut body).map_err(|error| error.to_string())?;
    if keep && !head.to_ascii_lowercase().contains("connection: close") {
        *connection = Some(reader);
    }
    Ok(())
}
