//! `redial up`: everything in one process, with a page to watch it.

mod data;
mod lines;
mod serve;

use std::env;
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use redial_web::{BindError, Listen, Token, Web, check_host};
use tokio::runtime::Builder;

use crate::duration;
use crate::failed::Failed;
use crate::process::StopSignals;
use data::Data;
use serve::Up;

const PORT: u16 = 7575;

/// See it: sidecar, queue, dashboard and playground in one process, with traffic to break
///
/// Without a file, two small fleets call two demo backends that fail when the page says so: one fleet with a naive
/// retry loop, the other one through the sidecar. With a file, the sidecar forwards to the upstreams of the file.
#[derive(clap::Args)]
#[command(after_help = "\
Everything is on loopback. The printed address contains a token, so that other users and web sites have no access; programs \
send it as `Authorization: Bearer TOKEN`. The admin pages of the sidecar are at the same address: /metrics, /healthz, \
/readyz, /config, /budgets and /breakers; probes need no token.

The data folder has the store of the queue (queue.db, for `redial queue` and `redial dlq`) and the token. One process uses \
it at a time. By default it is $XDG_STATE_HOME/redial or ~/.local/state/redial.

The first SIGTERM or Ctrl-C ends it when requests and jobs in flight are done; a second one ends it at once.

Exit codes: 0 ended by itself or by the first signal, 2 the file, the folder or an address cannot be used, 130 or 143 ended \
at once.

Examples:
  # the demo for twenty seconds: open the printed address, press a button
  redial up --for 20s
  # only the playground
  redial up --page-only --for 5s
  # your upstreams: the file is that of redial proxy
  echo '[upstream.api]' > proxy.toml
  echo 'listen = \"127.0.0.1:0\"' >> proxy.toml
  echo 'to = \"http://127.0.0.1:9\"' >> proxy.toml
  redial up proxy.toml --for 5s
  # for other machines, at http://box.internal:7575, until it is stopped
  redial up --listen 0.0.0.0:7575 --allow-host box.internal &
  kill $!")]
pub(crate) struct Args {
    /// A policy file with [upstream.NAME] tables, as for `redial proxy`
    file: Option<PathBuf>,
    /// Folder of the queue and the token [default: the user's state folder]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where the page is served; port 0 is any free port [default: 127.0.0.1:7575, or a free port if it is in use]
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<SocketAddr>,
    /// A host name that browsers may use for the page, with its port if it is another one; may be repeated
    #[arg(long, value_name = "HOST", value_parser = host)]
    allow_host: Vec<String>,
    /// Serve only the playground: no sidecar, no queue, no traffic
    #[arg(long, conflicts_with = "file")]
    page_only: bool,
    /// Open the page in a browser: that of $BROWSER, or of the desktop
    #[arg(long)]
    open: bool,
    /// End by itself after this time
    #[arg(long = "for", value_name = "TIME", value_parser = duration::read)]
    lasts: Option<Duration>,
}

fn host(text: &str) -> Result<String, String> {
    check_host(text).map(|()| text.to_owned())
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(up(args, out));
    // A lookup that takes long need not be waited for.
    runtime.shutdown_background();
    done
}

/// Binds the given address; or the default one, and if it is in use, a free port.
#[allow(clippy::print_stderr, reason = "the page is somewhere else than the docs say")]
async fn bind(args: &Args, token: Token) -> Result<Web, BindError> {
    let at = |address| Listen::new(address, token.clone()).allow_hosts(args.allow_host.clone());
    if let Some(address) = args.listen {
        return Web::bind(at(address)).await;
    }
    match Web::bind(at(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)))).await {
        Err(BindError::Io(_, error)) if error.kind() == ErrorKind::AddrInUse => {
            eprintln!(
                "redial: port {PORT} is in use: the page takes a free one (--listen chooses it)"
            );
            Web::bind(at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))).await
        }
        bound => bound,
    }
}

/// Opens the page in the user's browser.
#[allow(clippy::print_stderr, reason = "the page is up, and its address is printed")]
fn browse(url: &str) {
    let usual = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let browser = env::var_os("BROWSER").unwrap_or_else(|| usual.into());
    let mut command = Command::new(&browser);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        // It is reaped when it ends.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(error) => {
            eprintln!("redial: cannot open a browser: {}: {error}", browser.to_string_lossy());
        }
    }
}

async fn up(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let mut signals = StopSignals::listen()?;
    let config = serve::read(args.file.as_deref())?;
    let data = Data::open(args.data.as_ref())?;
    let lock = if args.page_only { None } else { Some(data.lock()?) };
    let web = bind(args, data.token()?).await.map_err(|error| Failed::input("--listen", error))?;
    let url = web.url().to_owned();
    let up = match args.page_only {
        true => Up::page_only(),
        false => Up::start(config, &data).await?,
    };
    up.tour(&data.store_path(), out)?;
    // Last, so that nothing of the start has to be scrolled away to find it.
    writeln!(out, "\nRedial is up: {url}")?;
    out.flush()?;
    let shows_lines = args.lasts.is_some();
    let served = tokio::spawn(web.serve(up.app()));
    if args.open {
        browse(&url);
    }
    let code = up.run(&mut signals, args.lasts, shows_lines).await?;
    served.abort();
    drop(lock);
    match code {
        0 => Ok(()),
        code => Err(Failed::Reported(code)),
    }
}
