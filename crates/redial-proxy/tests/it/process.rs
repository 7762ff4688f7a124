//! A proxy in a process of its own, so that its descriptors and memory can be counted.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::{env, fs};

use redial_policy::file::Address;
use redial_proxy::Proxy;

use crate::kit::{Directory, GET, OK, Upstream, Wire, read};

/// The variable with the file of the proxy that this process has to run.
const FILE: &str = "REDIAL_PROXY_TEST_FILE";
const NAME: &str = "process::a_proxy_in_a_process_of_its_own_serves_reloads_and_ends";

/// An allocator that soon gives back what is freed. That of glibc keeps it, and a leak could not be told from that.
fn allocator() -> PathBuf {
    let folders =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let found = folders.map(|folder| Path::new(folder).join("libjemalloc.so.2"));
    let found = found.into_iter().find(|path| path.exists());
    found.expect("libjemalloc.so.2 is needed, which redis-server uses: run `cargo xtask setup`")
}

/// The process is this test program again.
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
    directory: Directory,
    /// The ports of the upstreams by name.
    ports: Vec<(String, u16)>,
}

impl Process {
    pub(crate) fn start(name: &str, text: &str) -> Self {
        let directory = Directory::new(name);
        let path = directory.file("proxy.toml");
        fs::write(&path, text).unwrap();
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(FILE, &path)
            .env("LD_PRELOAD", allocator())
            .env("MALLOC_CONF", "background_thread:true,dirty_decay_ms:500,muzzy_decay_ms:0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let stdin = child.stdin.take();
        let mut process = Self { child, stdin, lines, directory, ports: Vec::new() };
        let ready = process.until("listens on ");
        process.ports = ready
            .split_whitespace()
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(name, port)| (name.to_owned(), port.parse().unwrap()))
            .collect();
        process
    }

    /// The rest of the next line with this beginning.
    fn until(&mut self, beginning: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the process has ended");
            if let Some((_, rest)) = line.split_once(beginning) {
                return rest.trim().to_owned();
            }
        }
    }

    pub(crate) fn port(&self, upstream: &str) -> u16 {
        self.ports.iter().find(|(name, _)| name == upstream).unwrap().1
    }

    /// Replaces the file, and returns whether it was accepted.
    pub(crate) fn reload(&mut self, text: &str) -> bool {
        fs::write(self.directory.file("proxy.toml"), text).unwrap();
        self.stdin.as_mut().unwrap().write_all(b"reload\n").unwrap();
        self.until("reloaded: ") == "true"
    }

    /// The number of open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// In KiB.
    pub(crate) fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Drains the proxy, which then ends.
    pub(crate) fn end(mut self) {
        self.stdin = None;
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(path: &Path) -> io::Result<()> {
    let read = || read(&fs::read_to_string(path).unwrap());
    let proxy = Proxy::start(&read().unwrap()).unwrap();
    let mut stdout = io::stdout();
    write!(stdout, "listens on")?;
    for (name, address) in proxy.addresses() {
        if let Address::Tcp(address) = address {
            write!(stdout, " {name}={}", address.port())?;
        }
    }
    writeln!(stdout)?;
    for line in io::stdin().lines() {
        assert_eq!(line?, "reload");
        let is_accepted = read().is_ok_and(|file| proxy.reload(&file).is_ok());
        writeln!(stdout, "reloaded: {is_accepted}")?;
    }
    proxy.drain();
    Ok(())
}

#[test]
fn a_proxy_in_a_process_of_its_own_serves_reloads_and_ends() {
    if let Some(path) = env::var_os(FILE) {
        return run(Path::new(&path)).unwrap();
    }
    let upstream = Upstream::always(OK);
    let text = format!("[upstream.app]\nto = \"http://127.0.0.1:{}\"\n", upstream.port);
    let mut process = Process::start("process", &text);
    let mut caller = Wire::connect(process.port("app"));
    caller.send(GET);
    assert_eq!(caller.response().text(), "ok");
    assert!(!process.reload("[upstream.app]\nto = 7\n"));
    caller.send(GET);
    assert_eq!(caller.response().text(), "ok");
    assert!(process.reload(&text.replace("app", "other")));
    caller.send(GET);
    assert_eq!(caller.response().status(), 503);
    process.end();
}
