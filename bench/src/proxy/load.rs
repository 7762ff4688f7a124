//! Load: wrk where only throughput counts, and our own schedule where latencies do, because wrk waits for answers before it sends.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::pip::output;

/// Connections that are held open.
pub(super) const MANY: usize = 10_000;
/// Connections of a schedule. They are never all busy at half of saturation.
const SCHEDULED: usize = 32;

#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) connections: usize,
    /// POSTs of 1 KiB instead of GETs.
    pub(super) post: bool,
}

impl Load {
    /// The number of requests that were answered with success.
    pub(super) fn run(self, address: &str, time: Duration) -> Result<f64, String> {
        let mut wrk = Command::new("wrk");
        wrk.args([
            "-t1",
            "-c",
            &self.connections.to_string(),
            "-d",
            &format!("{}s", time.as_secs()),
        ]);
        if self.post {
            let script = env::temp_dir().join("redial-bench-post.lua");
            let text = "wrk.method = 'POST'\nwrk.body = string.rep('x', 1024)\n";
            fs::write(&script, text).map_err(|error| error.to_string())?;
            wrk.arg("-s").arg(script);
        }
        let text = output(wrk.arg(format!("http://{address}/")))?;
        if let Some(line) =
            text.lines().find(|line| line.contains("Non-2xx") || line.contains("Socket errors"))
        {
            return Err(format!("{address}: {}", line.trim()));
        }
        let requests = text.lines().find_map(|line| line.trim().split_once(" requests in "));
        requests.and_then(|(n, _)| n.parse().ok()).ok_or_else(|| format!("wrk printed\n{text}"))
    }
}

/// The 99th percentile of latencies in microseconds, from when each request was due.
pub(super) fn p99(address: &str, per_second: f64, time: Duration) -> Result<f64, String> {
    let (next, begun) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let threads: Vec<_> = (0..SCHEDULED)
        .map(|_| {
            let (address, next) = (address.to_owned(), Arc::clone(&next));
            thread::spawn(move || scheduled(&address, &next, begun, per_second, time))
        })
        .collect();
    let mut latencies = Vec::new();
    for thread in threads {
        latencies.extend(thread.join().map_err(|_| "a caller panicked")??);
    }
    latencies.sort_by(f64::total_cmp);
    latencies.get(latencies.len() * 99 / 100).copied().ok_or_else(|| "no request was sent".into())
}

/// One connection that takes the next request of the schedule whenever it is free.
fn scheduled(
    address: &str,
    next: &AtomicUsize,
    begun: Instant,
    per_second: f64,
    time: Duration,
) -> Result<Vec<f64>, String> {
    let mut connection = connect(address)?;
    let mut latencies = Vec::new();
    loop {
        let due = Duration::from_secs_f64(next.fetch_add(1, Ordering::Relaxed) as f64 / per_second);
        if due > time {
            return Ok(latencies);
        }
        thread::sleep(due.saturating_sub(begun.elapsed()));
        get(&mut connection, address)?;
        latencies.push((begun.elapsed() - due).as_secs_f64() * 1e6);
    }
}

fn connect(address: &str) -> Result<TcpStream, String> {
    let connection = TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
    connection.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(connection)
}

/// The body is known, so that its end is.
fn get(connection: &mut TcpStream, address: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{address}: {error}");
    connection.write_all(b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n").map_err(failed)?;
    let (mut answer, mut filled) = ([0; 1024], 0);
    while !answer[..filled].ends_with(b"hello, world\n") {
        match connection.read(&mut answer[filled..]).map_err(failed)? {
            0 => return Err(format!("{address} closed a connection")),
            n => filled += n,
        }
    }
    Ok(())
}

/// A process that holds connections, because one process may not have enough descriptors for both ends.
pub(super) struct Held(Child);

impl Held {
    pub(super) fn open(address: &str, connections: usize) -> Result<Self, String> {
        let this = env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(this);
        command.args(["proxy-hold", address, &connections.to_string()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut held = Self(child.map_err(|error| error.to_string())?);
        let mut said = [0; 5];
        let read = held.0.stdout.as_mut().map(|stdout| stdout.read_exact(&mut said));
        match read {
            Some(Ok(())) if said == *b"open\n" => Ok(held),
            _ => Err(format!("{address} does not take {connections} connections")),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Opens connections, makes a request on each, and holds them until it is killed.
pub(crate) fn hold(address: &str, connections: usize) -> Result<(), String> {
    let mut held = Vec::new();
    for _ in 0..connections {
        let mut connection = connect(address)?;
        get(&mut connection, address)?;
        held.push(connection);
    }
    println!("open");
    loop {
        thread::park();
    }
}
