//! Tests that share a server with other programs fail for reasons outside of the tests. So each run has private servers:
//! on a free port of the loopback, with a folder of their own, stopped when their handle is dropped.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

use crate::cargo::{cannot_start, find_program};

const START_WAIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
const PORTS_TRIED: u32 = 3;

/// A private server, stopped on drop.
#[derive(Debug)]
pub struct Private {
    name: &'static str,
    /// Runs until drop.
    pub(crate) child: Child,
    /// The address that it listens on.
    pub(crate) address: SocketAddr,
    /// Removed on drop.
    pub(crate) folder: Folder,
}

/// A folder that is removed on drop.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Private {
    /// Tries `start` on free ports until a server answers `ping`. Another process may bind the port between our check and
    /// the start of the server.
    pub(crate) fn start(
        name: &'static str,
        start: impl Fn(&Path, SocketAddr) -> Result<Command, String>,
        ping: impl Fn(SocketAddr) -> Result<(), String>,
    ) -> Result<Self, String> {
        let mut last = String::new();
        for _ in 0..PORTS_TRIED {
            let folder = Folder(make_folder(name)?);
            let address = TcpListener::bind("127.0.0.1:0")
                .and_then(|listener| listener.local_addr())
                .map_err(|error| format!("no free port on 127.0.0.1: {error}"))?;
            let child = spawn(start(&folder.0, address)?)?;
            let mut server = Self { name, child, address, folder };
            match server.wait(&ping) {
                Ok(()) => return Ok(server),
                Err(message) => last = message,
            }
        }
        Err(last)
    }

    /// Waits until it answers.
    pub(crate) fn wait(
        &mut self,
        ping: impl Fn(SocketAddr) -> Result<(), String>,
    ) -> Result<(), String> {
        let deadline = Instant::now() + START_WAIT;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.failure(&format!("ended with {status}")));
            }
            let error = match ping(self.address) {
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
        let log = fs::read_to_string(self.folder.0.join("log")).unwrap_or_default();
        format!("the private {} at {} {what}; its log:\n{log}", self.name, self.address)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // An error here must not hide the result of a test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn spawn(mut command: Command) -> Result<Child, String> {
    command.stdin(Stdio::null());
    command.spawn().map_err(|error| cannot_start(&command, &error))
}

/// A command for `program` that the kernel kills when this process ends, if `setpriv` is installed: a run that is killed
/// drops no handle. Without it, only the terminal's Ctrl-C reaches the program, because it stays in our process group.
/// It runs as `user`, if there is one.
pub(crate) fn with_our_end(program: &Path, user: Option<User>) -> Result<Command, String> {
    let Some(setpriv) = find_program("setpriv") else {
        return match user {
            None => Ok(Command::new(program)),
            Some(_) => Err(format!(
                "{} cannot run as root, and setpriv is not installed",
                program.display()
            )),
        };
    };
    let mut command = Command::new(setpriv);
    if let Some(User { user, group }) = user {
        command.args([format!("--reuid={user}"), format!("--regid={group}")]).arg("--clear-groups");
    }
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    Ok(command)
}

/// An unprivileged user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl User {
    /// The first of `names` that exists; `None` if this process does not run as root.
    pub(crate) fn instead_of_root(names: &[&str]) -> Result<Option<Self>, String> {
        if id(&["-u"]) != Some(0) {
            return Ok(None);
        }
        let found = names
            .iter()
            .find_map(|name| Some(Self { user: id(&["-u", name])?, group: id(&["-g", name])? }));
        found.map(Some).ok_or_else(|| format!("no such user: {}", names.join(", ")))
    }
}

fn id(args: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(args).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

pub(crate) fn make_folder(name: &str) -> Result<PathBuf, String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("redial-{name}-{}-{count}", std::process::id()));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            // Left by a killed run that had the same process id.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(format!("cannot create {}: {error}; set TMPDIR", folder.display()));
            }
        }
    }
}
