//! A private Postgres, as durable as one in production, that a test may kill.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cargo::{cannot_start, find_program};
use crate::private::{Private, User, spawn, with_our_end};

/// The environment variable with the `postgres://` address of the tests' Postgres.
pub const VARIABLE: &str = "REDIAL_TEST_POSTGRES";

const PING_WAIT: Duration = Duration::from_secs(5);
const NAME: &str = "postgres";
/// Local connections need no password, except for the user `locked`.
const ACCESS: &str =
    "host all locked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";

/// A private Postgres, stopped on drop.
#[derive(Debug)]
pub struct Postgres {
    server: Private,
    settings: Vec<String>,
}

impl Postgres {
    /// Starts a server and waits until it answers.
    pub fn start() -> Result<Self, String> {
        Self::start_with(&[])
    }

    /// Like [`start`](Self::start), with settings in the form `name=value`.
    pub fn start_with(settings: &[&str]) -> Result<Self, String> {
        let missing = "is not installed: run `cargo xtask setup`";
        let initdb = find_program("initdb").ok_or(format!("initdb (of PostgreSQL) {missing}"))?;
        let settings: Vec<_> = settings.iter().map(|&one| one.to_owned()).collect();
        let start = |folder: &Path, address: SocketAddr| {
            make(&initdb, folder)?;
            command(folder, address, &settings)
        };
        let server = Private::start(NAME, start, ping)?;
        Ok(Self { server, settings })
    }

    /// The address for [`VARIABLE`]: the database `postgres`, as the superuser `redial`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://redial@{}/postgres", self.server.address)
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// The folder that holds its data and its log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.server.folder.0
    }

    /// Ends it at once, as a crash does. What it has committed is on the disk.
    pub fn kill(&mut self) -> Result<(), String> {
        // The process id of one that has ended may belong to another process.
        if let Ok(Some(_)) = self.server.child.try_wait() {
            return Ok(());
        }
        let id = self.server.child.id().to_string();
        // SIGQUIT ends its child processes too; after a SIGKILL those would prevent the next start.
        let sent = Command::new("kill").args(["-QUIT", &id]).status();
        sent.map_err(|error| format!("cannot run kill: {error}"))?;
        self.server
            .child
            .wait()
            .map_err(|error| format!("cannot wait for the private Postgres: {error}"))?;
        Ok(())
    }

    /// Starts it again after [`kill`](Self::kill), with the same data at the same address.
    pub fn start_again(&mut self) -> Result<(), String> {
        let command = command(&self.server.folder.0, self.server.address, &self.settings)?;
        self.server.child = spawn(command)?;
        self.server.wait(ping)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // With its child processes, which would still write to the folder that is removed next.
        let _ = self.kill();
    }
}

/// Postgres refuses to run as root.
fn user() -> Result<Option<User>, String> {
    // tidy-allow: a user of the system
    User::instead_of_root(&["postgres", "nobody"])
}

fn make(initdb: &Path, folder: &Path) -> Result<(), String> {
    let data = folder.join("data");
    let io = |error: io::Error| format!("cannot write to {}: {error}", folder.display());
    let user = user()?;
    if let Some(User { user, group }) = user {
        chown(folder, Some(user), Some(group)).map_err(io)?;
    }
    let mut command = with_our_end(initdb, user)?;
    command
        .args(["--no-sync", "--auth=trust", "--username=redial", "--encoding=UTF8", "--locale=C"])
        .arg("--pgdata")
        .arg(&data)
        .current_dir(folder)
        .stdin(Stdio::null());
    let output = command.output().map_err(|error| cannot_start(&command, &error))?;
    if !output.status.success() {
        return Err(format!("initdb failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    fs::write(data.join("pg_hba.conf"), ACCESS).map_err(io)
}

fn command(folder: &Path, address: SocketAddr, settings: &[String]) -> Result<Command, String> {
    let missing = "postgres is not installed: run `cargo xtask setup`";
    let program = find_program(NAME).ok_or(missing)?;
    let log = folder.join("log");
    let log = File::options().create(true).append(true).open(&log);
    let log =
        log.map_err(|error| format!("cannot write a log to {}: {error}", folder.display()))?;
    let mut command = with_our_end(&program, user()?)?;
    command.arg("-D").arg(folder.join("data")).args(["-p", &address.port().to_string()]);
    let always = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"];
    for setting in always.into_iter().chain(settings.iter().map(String::as_str)) {
        command.args(["-c", setting]);
    }
    command.current_dir(folder).stdout(Stdio::null()).stderr(log);
    Ok(command)
}

/// Checks that the server accepts connections.
pub fn ping(address: SocketAddr) -> Result<(), String> {
    let exchange = || -> io::Result<u8> {
        let mut stream = TcpStream::connect_timeout(&address, PING_WAIT)?;
        stream.set_read_timeout(Some(PING_WAIT))?;
        let startup = b"\0\x03\0\0user\0redial\0database\0postgres\0\0";
        let length = u32::try_from(startup.len() + 4).unwrap_or(u32::MAX);
        stream.write_all(&[&length.to_be_bytes()[..], startup].concat())?;
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        // Terminate, so that its log has no warning.
        let _ = stream.write_all(b"X\0\0\0\x04");
        Ok(kind[0])
    };
    match exchange() {
        Ok(b'R') => Ok(()),
        Ok(_) => Err(format!("{address} does not accept connections yet: is it a Postgres?")),
        Err(error) => Err(format!("cannot reach postgres://{address}: {error}")),
    }
}
