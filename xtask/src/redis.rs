//! Tests that share a server with anything else fail for reasons of their own. So each run gets a
//! Redis that nobody else knows: a free port of the loopback, nothing on disk but its log, and an
//! end when the handle is dropped.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

use crate::cargo::cannot_start;
use crate::setup::find_program;

/// The variable that tells the tests where their Redis is, as a `redis://` address.
pub const VARIABLE: &str = "REDIAL_TEST_REDIS";

const SCHEME: &str = "redis://";
const START_WAIT: Duration = Duration::from_secs(10);
const PING_WAIT: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);
const PORTS_TRIED: u32 = 3;

/// A Redis of our own, stopped on drop.
#[derive(Debug)]
pub struct Redis {
    /// Runs until drop.
    child: Child,
    /// Where it listens.
    address: SocketAddr,
    /// Ours alone, removed on drop.
    folder: PathBuf,
}

impl Redis {
    /// Starts a server and waits until it answers.
    pub fn start() -> Result<Self, String> {
        let program = find_program("redis-server")
            .ok_or("redis-server is not installed: run `cargo xtask setup`")?;
        let mut last = String::new();
        // The port is free when we ask, not when the server binds it: somebody may come between.
        for _ in 0..PORTS_TRIED {
            let mut redis = Self::spawn(&program)?;
            match redis.wait() {
                Ok(()) => return Ok(redis),
                Err(message) => last = message,
            }
        }
        Err(last)
    }

    /// The address for [`VARIABLE`].
    #[must_use]
    pub fn url(&self) -> String {
        format!("{SCHEME}{}", self.address)
    }

    /// The folder that holds its log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn spawn(program: &Path) -> Result<Self, String> {
        let folder = make_folder()?;
        let address = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(|error| format!("no free port on 127.0.0.1: {error}"))?;
        let mut command = with_our_end(program);
        command
            .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(["--logfile", "log", "--dir"])
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().map_err(|error| cannot_start(&command, &error))?;
        Ok(Self { child, address, folder })
    }

    fn wait(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_WAIT;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.failure(&format!("ended with {status}")));
            }
            let error = match ping(&self.url()) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if Instant::now() >= deadline {
                return Err(self.failure(&format!("does not answer: {error}")));
            }
            sleep(POLL);
        }
    }

    fn failure(&self, what: &str) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        format!("the private Redis at {} {what}; its log:\n{log}", self.address)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and a test's result matters more.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Asks the server at a `redis://host:port` address for a PONG.
pub fn ping(url: &str) -> Result<(), String> {
    let address: SocketAddr = url
        .strip_prefix(SCHEME)
        .and_then(|rest| rest.parse().ok())
        .ok_or_else(|| format!("`{url}` is not an address: write redis://IP:PORT"))?;
    let exchange = || -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, PING_WAIT)?;
        stream.set_read_timeout(Some(PING_WAIT))?;
        stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply)?;
        Ok(reply)
    };
    match exchange() {
        Ok(reply) if reply == "+PONG\r\n" => Ok(()),
        Ok(reply) => Err(format!("{url} answers PING with {reply:?}: is it a Redis?")),
        Err(error) => Err(format!("cannot reach {url}: {error}")),
    }
}

/// A command for `program` that the kernel ends when we end, where there is a tool to ask for that:
/// a run that is killed drops nothing. Elsewhere only the terminal's Ctrl-C reaches it, because it
/// stays in our process group.
fn with_our_end(program: &Path) -> Command {
    let Some(setpriv) = find_program("setpriv") else {
        return Command::new(program);
    };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

fn make_folder() -> Result<PathBuf, String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("redial-redis-{}-{count}", std::process::id()));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            // Left by a run that was killed, whose process id is now ours.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(format!("cannot create {}: {error}; set TMPDIR", folder.display()));
            }
        }
    }
}
