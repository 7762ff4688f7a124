//! `redial proxy`: the sidecar.

mod config;
mod notify;
mod program;
mod ready;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;
use redial_core::{Deadline, Span};
use redial_policy::file::{AccessLog, Address};
use redial_proxy::{Line, Options, Proxy, Sockets, Source};
use serde_json::json;

use crate::failed::Failed;
use crate::log::{Form, json_line};
use crate::policy;
use crate::process::{SignalFlags, Status, open_files, ready, stop_ourselves};
use crate::stderr::{LAST_FLUSH, Stderr};
use crate::text::sanitise_lines;
pub(crate) use config::Config;
use notify::notify;
use program::Program;

/// Run the sidecar: retries, budgets and deadlines for services in any language
///
/// It listens on the address of each [upstream.NAME] of a policy file, and forwards requests under the policies of the
/// file.
#[derive(clap::Args)]
#[command(after_help = "\
With a program, the URL of each upstream is in its environment: STRIPE_URL for the upstream stripe, upper case and with _ \
for -. Signals go to the program, and its exit code is returned. The program is not started if the sidecar cannot be, and it \
is killed if the sidecar is killed.

Without a program, SIGHUP reads the file again, and SIGTERM or SIGINT ends the sidecar when requests in flight have been \
answered, at the latest after [proxy] drain; a second signal ends it at once. The file is also read again when it has \
changed. One that cannot be used is refused, and the old one stays.

Exit codes: 2 the file or an argument is wrong, or an address is in use; otherwise 0, or that of the program (128 + the \
signal that killed it, 127 if it was not found, 126 if it could not be started).

Examples:
  # a program, with the URL of its upstream in API_URL
  redial proxy --upstream api=http://127.0.0.1:9 -- sh -c 'echo $API_URL'
  # with another policy
  redial proxy --upstream api=http://127.0.0.1:9 --policy web --attempt-timeout 2s -- date
  # a file
  echo '[upstream.api]' > proxy.toml
  echo 'listen = \"127.0.0.1:0\"' >> proxy.toml
  echo 'to = \"http://127.0.0.1:9\"' >> proxy.toml
  # check it, certificates too; bind nothing
  redial proxy --check proxy.toml
  # beside a program
  redial proxy proxy.toml -- date
  # until SIGTERM
  redial proxy proxy.toml &
  kill $!")]
pub(crate) struct Args {
    /// A policy file with [upstream.NAME] tables
    #[arg(required_unless_present_any = ["upstream", "ready"])]
    file: Option<PathBuf>,
    /// Forward to URL under the standard policy, or --policy; may be repeated
    #[arg(long, value_name = "NAME=URL", value_parser = config::upstream)]
    upstream: Vec<redial_policy::file::Upstream>,
    /// Policy of every --upstream: a preset, or the path of a policy file, with #NAME if it has several
    /// [default: standard]
    #[arg(long, value_name = "POLICY", requires = "upstream", value_parser = policy::Named::read)]
    policy: Option<policy::Named>,
    /// Timeout of an attempt of every --upstream
    #[arg(long, value_name = "TIME", requires = "upstream", value_parser = duration)]
    attempt_timeout: Option<Span>,
    /// Check the file and what it names, and exit
    #[arg(long, conflicts_with = "program")]
    check: bool,
    /// Exit with 0 if the sidecar whose admin interface is at ADDRESS is ready, else with 1
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["file", "upstream", "policy", "check", "program", "threads"])]
    ready: Option<Address>,
    /// Number of threads, instead of [proxy] threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Program to run beside the sidecar
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

fn duration(text: &str) -> Result<Span, String> {
    text.parse().map_err(|error: redial_core::Unreadable| error.to_string())
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    if let Some(address) = &args.ready {
        return ready::ask(address);
    }
    let config = Arc::new(Config::new(args).map_err(Failed::Input)?);
    let file = config.read().map_err(Failed::Input)?;
    let place = config.place();
    if args.check {
        Proxy::check(&file).map_err(|error| Failed::input(&place, error))?;
        return Ok(writeln!(out, "{place}: ok")?);
    }
    let sockets = Sockets::from_env().map_err(|error| Failed::Input(error.to_string()))?;
    let form = if file.proxy.log == AccessLog::Json { Form::Json } else { Form::Text };
    let log = Arc::new(Log::new(form));
    let signals = SignalFlags::listen()?;
    let lines = Arc::clone(&log);
    let source = config.path().map(|path| {
        let (path, config) = (path.to_owned(), Arc::clone(&config));
        Source { path, read: Box::new(move || config.read()) }
    });
    let options = Options {
        sockets,
        source,
        log: Some(Arc::new(move |line| lines.line(line))),
        ..Options::default()
    };
    let proxy = Proxy::start_with(&file, options).map_err(|error| Failed::input(&place, error))?;
    for (upstream, address) in proxy.addresses() {
        log.event("listening", &format!("{upstream} listens on {address}"));
    }
    if let Some(admin) = proxy.admin() {
        log.event("listening", &format!("admin listens on {admin}"));
    }
    let program = match args.program.split_first() {
        Some((name, args)) => {
            let urls = config::urls(&file.upstreams, &proxy.addresses());
            Some(Program::start(name, args, urls)?)
        }
        None => None,
    };
    open_files::raise();
    notify("READY=1");
    let mut sidecar = Sidecar { signals, log, program };
    let done = sidecar.run(proxy);
    sidecar.log.stderr.flush(LAST_FLUSH);
    match done? {
        0 => Ok(()),
        code => Err(Failed::Reported(code)),
    }
}

/// The log on stderr.
pub(crate) struct Log {
    form: Form,
    stderr: Stderr,
}

impl Log {
    pub(crate) fn new(form: Form) -> Self {
        Self { form, stderr: Stderr::new(form) }
    }

    pub(crate) fn line(&self, line: Line) {
        match line {
            Line::Access(line) => self.stderr.line(line),
            Line::Event { name, message } => self.event(name, &message),
        }
    }

    fn event(&self, name: &str, message: &str) {
        self.stderr.line(match self.form {
            Form::Json => json_line(name, json!({ "message": message })),
            _ => format!("redial: {}\n", sanitise_lines(message)),
        });
    }
}

struct Sidecar {
    signals: SignalFlags,
    log: Arc<Log>,
    program: Option<Program>,
}

impl Sidecar {
    /// Runs until the program has ended, or until a signal if there is none. Returns the exit code.
    fn run(&mut self, proxy: Proxy) -> io::Result<u8> {
        let status = loop {
            ready(&mut [PollFd::new(self.signals.fd(), PollFlags::POLLIN)], Deadline::NONE)?;
            let came = self.signals.take();
            let Some(program) = &mut self.program else {
                if came.into_iter().any(|signal| is_over(signal, &proxy)) {
                    break None;
                }
                continue;
            };
            came.into_iter().for_each(|signal| program.pass_on(signal));
            if let Some(status) = program.ended()? {
                break Some(status);
            }
        };
        notify("STOPPING=1");
        self.log
            .event("draining", "draining: no more connections, requests in flight are answered");
        self.drain(proxy)?;
        Ok(status.map_or(0, Status::code))
    }

    /// Waits for the requests in flight, or for a signal that ends them.
    fn drain(&mut self, proxy: Proxy) -> io::Result<()> {
        let (done, end) = UnixStream::pair()?;
        thread::spawn(move || {
            proxy.drain();
            drop(end);
        });
        loop {
            let mut fds = [
                PollFd::new(self.signals.fd(), PollFlags::POLLIN),
                PollFd::new(done.as_fd(), PollFlags::POLLIN),
            ];
            ready(&mut fds, Deadline::NONE)?;
            let is_done = fds[1].any().unwrap_or(false);
            if is_done || self.signals.take().into_iter().any(is_ending) {
                return Ok(());
            }
        }
    }
}

/// Does what a signal asks for. Returns whether it asks to end.
fn is_over(signal: Signal, proxy: &Proxy) -> bool {
    match signal {
        Signal::SIGHUP => {
            notify::reloading();
            proxy.reread();
            notify("READY=1");
        }
        Signal::SIGTSTP => stop_ourselves(),
        _ => {}
    }
    is_ending(signal)
}

fn is_ending(signal: Signal) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGQUIT)
}
