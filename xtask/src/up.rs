//! A real `redial up` for tests, pictures and measurements: in a folder of its own, stopped on drop.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cargo::{cannot_start, root, target_dir};
use crate::private::{Folder, make_folder};

/// The environment variable with the path of the command.
pub const VARIABLE: &str = "REDIAL_TEST_COMMAND";

/// A running `redial up`.
#[derive(Debug)]
pub struct Up {
    program: PathBuf,
    args: Vec<String>,
    child: Option<Child>,
    url: String,
    started: Duration,
    /// Keeps the pipe open.
    output: Option<BufReader<ChildStdout>>,
    /// Removed on drop.
    folder: Folder,
}

impl Up {
    /// Starts the command of a debug build, or of `REDIAL_TEST_COMMAND`, and waits until it serves.
    pub fn start(args: &[&str]) -> Result<Self, String> {
        let built = || root().join(target_dir()).join("debug/redial");
        let program = std::env::var_os(VARIABLE).map_or_else(built, PathBuf::from);
        Self::start_program(&program, args)
    }

    /// Starts a command that was built in another way.
    pub fn start_program(program: &Path, args: &[&str]) -> Result<Self, String> {
        if !program.is_file() {
            let program = program.display();
            return Err(format!("{program} does not exist: `cargo build -p redial-cli` makes it"));
        }
        let mut up = Self {
            program: program.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            child: None,
            url: String::new(),
            started: Duration::ZERO,
            output: None,
            folder: Folder(make_folder("up")?),
        };
        up.launch("127.0.0.1:0")?;
        Ok(up)
    }

    fn launch(&mut self, listen: &str) -> Result<(), String> {
        let log = self.folder.0.join("log");
        let stderr = File::create(&log).map_err(|error| error.to_string())?;
        let mut command = Command::new(&self.program);
        command.arg("up").args(&self.args).args(["--listen", listen, "--data"]).arg(self.data());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let begin = Instant::now();
        let mut child = command.spawn().map_err(|error| cannot_start(&command, &error))?;
        let output = child.stdout.take().map(BufReader::new);
        self.child = Some(child);
        let mut output = output.ok_or("no output")?;
        let mut line = String::new();
        while output.read_line(&mut line).is_ok_and(|read| read > 0) {
            if let Some(url) = line.split_whitespace().find(|word| word.contains("/?token=")) {
                self.url = url.to_owned();
                self.started = begin.elapsed();
                self.output = Some(output);
                return Ok(());
            }
            line.clear();
        }
        let said = std::fs::read_to_string(log).unwrap_or_default();
        Err(format!("`redial up` ended without an address:\n{said}"))
    }

    /// Where its data is.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.0.join("data")
    }

    /// The address to open, with its token.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address without path and token.
    #[must_use]
    pub fn origin(&self) -> &str {
        let path = self.url.match_indices('/').nth(2).map_or(self.url.len(), |(at, _)| at);
        &self.url[..path]
    }

    /// The address of a page, with the token.
    #[must_use]
    pub fn page(&self, path: &str) -> String {
        let token = self.url.split_once('?').map_or("", |(_, query)| query);
        format!("{}{path}?{token}", self.origin())
    }

    /// How long it took until it printed its address.
    #[must_use]
    pub fn started(&self) -> Duration {
        self.started
    }

    /// The process.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills it.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.output = None;
    }

    /// Starts it again at the same address, with the same data.
    pub fn restart(&mut self) -> Result<(), String> {
        self.stop();
        let listen = self.origin().trim_start_matches("http://").to_owned();
        self.launch(&listen)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.stop();
    }
}
