//! The proxies, each a process with a configuration that this file writes.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{beside, load};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Haproxy,
    HaproxyRetrying,
    Nginx,
    Envoy,
    Redial,
    Redial2,
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::Haproxy,
        Self::HaproxyRetrying,
        Self::Nginx,
        Self::Envoy,
        Self::Redial,
        Self::Redial2,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Haproxy => "HAProxy",
            Self::HaproxyRetrying => "HAProxy retry-on",
            Self::Nginx => "nginx",
            Self::Envoy => "Envoy",
            Self::Redial => "redial",
            Self::Redial2 => "redial, two threads",
        }
    }

    pub(super) fn is_peer(self) -> bool {
        !matches!(self, Self::Redial | Self::Redial2)
    }

    fn config(self, port: u16, origin: &str) -> String {
        match self {
            Self::Haproxy => haproxy(port, origin, ""),
            Self::HaproxyRetrying => {
                haproxy(port, origin, "  retries 3\n  retry-on all-retryable-errors\n")
            }
            Self::Nginx => nginx(
                port,
                &format!(
                    "upstream origin {{ server {origin}; keepalive 64; keepalive_requests 1000000000; }}\n\
                 server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://origin; \
                 proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }}"
                ),
            ),
            Self::Envoy => envoy(port, origin),
            Self::Redial => redial(port, origin, 1),
            Self::Redial2 => redial(port, origin, 2),
        }
    }

    fn command(self, config: &Path) -> Result<Command, String> {
        let command = |program: &Path, args: &[&str]| {
            let mut command = Command::new(program);
            command.args(args).arg(config);
            command
        };
        Ok(match self {
            Self::Haproxy | Self::HaproxyRetrying => command(&program("haproxy"), &["-db", "-f"]),
            Self::Nginx => start_nginx(config),
            Self::Envoy => {
                let path = std::env::var_os(ENVOY).ok_or("not installed")?;
                let args = ["--concurrency", "1", "--log-level", "error", "--use-dynamic-base-id"];
                command(Path::new(&path), &[&args[..], &["-c"]].concat())
            }
            Self::Redial | Self::Redial2 => command(&beside("redial")?, &["proxy"]),
        })
    }
}

/// The environment variable with the path of Envoy, which `cargo xtask bench` sets.
const ENVOY: &str = "REDIAL_TEST_ENVOY";

/// Debian installs servers where users without rights do not look.
fn program(name: &str) -> PathBuf {
    let installed = Path::new("/usr/sbin").join(name);
    if installed.exists() { installed } else { name.into() }
}

fn start_nginx(config: &Path) -> Command {
    let mut command = Command::new(program("nginx"));
    command.arg("-p").arg(config.parent().unwrap_or(config)).arg("-c").arg(config);
    command
}

/// An nginx that answers every request at once.
pub(super) struct Origin {
    _process: Process,
    pub(super) address: String,
}

impl Origin {
    pub(super) fn start(folder: &Path) -> Result<Self, String> {
        let port = free_port()?;
        let config = nginx(
            port,
            &format!(
                "server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 200 \"hello, world\\n\"; }} }}"
            ),
        );
        let file = write(folder, "origin", &config)?;
        let process = Process::start(&mut start_nginx(&file), port)?;
        Ok(Self { _process: process, address: format!("127.0.0.1:{port}") })
    }
}

pub(super) struct Contender {
    pub(super) kind: Kind,
    pub(super) address: String,
    process: Process,
}

impl Contender {
    pub(super) fn start(kind: Kind, folder: &Path, origin: &Origin) -> Result<Self, String> {
        let port = free_port()?;
        let name = kind.name().replace([' ', ','], "-");
        let file = write(folder, &name, &kind.config(port, &origin.address))?;
        let process = Process::start(&mut kind.command(&file)?, port)?;
        let address = format!("127.0.0.1:{port}");
        load::Load { connections: 32, post: false }.run(&address, Duration::from_secs(1))?;
        Ok(Self { kind, address, process })
    }

    /// Nanoseconds that its threads have run.
    pub(super) fn processor_time(&self) -> Result<u64, String> {
        let times = self.process.all().into_iter().flat_map(tasks).map(|task| {
            let text = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
            text.split(' ').next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0)
        });
        match times.sum() {
            0 => Err(format!("{} has ended", self.kind.name())),
            sum => Ok(sum),
        }
    }

    /// Resident bytes of its processes.
    pub(super) fn memory(&self) -> Result<f64, String> {
        let of = |pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            line.trim().strip_suffix(" kB")?.parse::<f64>().ok()
        };
        let sizes: Option<Vec<f64>> = self.process.all().into_iter().map(of).collect();
        let sizes = sizes.ok_or_else(|| format!("{} has ended", self.kind.name()))?;
        Ok(sizes.iter().sum::<f64>() * 1024.0)
    }
}

fn tasks(pid: u32) -> Vec<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    tasks.flatten().map(|task| task.path()).collect()
}

/// Killed when it is dropped.
struct Process(Child);

impl Process {
    /// Returns when it accepts connections on `port`.
    fn start(command: &mut Command, port: u16) -> Result<Self, String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut process = Self(child.map_err(|error| {
            format!("{program} does not start ({error}): `cargo xtask setup` installs it")
        })?);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Ok(Some(status)) = process.0.try_wait() {
                return Err(format!("{program} ended at once: {status}"));
            }
            if begun.elapsed() > Duration::from_secs(20) {
                return Err(format!("{program} does not listen"));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(process)
    }

    /// It and its children: nginx has a worker.
    fn all(&self) -> Vec<u32> {
        let pid = self.0.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        [pid].into_iter().chain(children).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Children first: a worker of a killed nginx would stay.
        for pid in self.all().into_iter().rev() {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        let _ = self.0.wait();
    }
}

fn write(folder: &Path, name: &str, config: &str) -> Result<PathBuf, String> {
    let extension = match name {
        "Envoy" => "yaml",
        "redial" | "redial--two-threads" => "toml",
        _ => "conf",
    };
    let file = folder.join(name).with_extension(extension);
    fs::write(&file, config).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|error| error.to_string())
}

/// Its pid file is in the prefix, because nginx removes that file at its end.
fn nginx(port: u16, servers: &str) -> String {
    format!(
        "daemon off; worker_processes 1; pid nginx-{port}.pid; error_log /dev/null;\n\
         events {{ worker_connections 30000; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;\n{servers}\n}}\n"
    )
}

fn haproxy(port: u16, origin: &str, more: &str) -> String {
    format!(
        "global\n  nbthread 1\n  maxconn 30000\n  no strict-limits\n\
         defaults\n  mode http\n  timeout connect 5s\n  timeout client 600s\n  timeout server 60s\n  \
         http-reuse always\n\
         listen proxy\n  bind 127.0.0.1:{port}\n{more}  server origin {origin}\n"
    )
}

fn redial(port: u16, origin: &str, threads: u32) -> String {
    format!(
        "[proxy]\nadmin = \"none\"\nlog = \"none\"\nthreads = {threads}\nconnections = 20000\n\n\
         [policy.guarded]\nextends = \"standard\"\nbreaker = {{ }}\n\n\
         [upstream.origin]\nto = \"http://{origin}\"\nlisten = \"127.0.0.1:{port}\"\npolicy = \"guarded\"\n"
    )
}

fn envoy(port: u16, origin: &str) -> String {
    let (host, origin_port) = origin.split_once(':').unwrap_or((origin, "80"));
    let address = |host: &str, port: &str| {
        format!(r#"{{"socket_address":{{"address":"{host}","port_value":{port}}}}}"#)
    };
    let (listen, to) = (address("127.0.0.1", &port.to_string()), address(host, origin_port));
    format!(
        r#"{{"static_resources":{{"listeners":[{{"address":{listen},"filter_chains":[{{"filters":[{{"name":"envoy.filters.network.http_connection_manager",
"typed_config":{{"@type":"type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager","stat_prefix":"in",
"route_config":{{"virtual_hosts":[{{"name":"all","domains":["*"],"routes":[{{"match":{{"prefix":"/"}},"route":{{"cluster":"origin",
"retry_policy":{{"retry_on":"5xx,connect-failure,reset"}}}}}}]}}]}},
"http_filters":[{{"name":"envoy.filters.http.router","typed_config":{{"@type":"type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}}}]}}}}]}}]}}],
"clusters":[{{"name":"origin","type":"STATIC","connect_timeout":"5s","circuit_breakers":{{"thresholds":[{{"max_connections":30000,"max_requests":30000}}]}},
"load_assignment":{{"cluster_name":"origin","endpoints":[{{"lb_endpoints":[{{"endpoint":{{"address":{to}}}}}]}}]}}}}]}}}}"#
    )
}
