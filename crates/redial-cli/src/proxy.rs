use std::fs;
use std::io::Write;
use std::path::PathBuf;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use redial_policy::file::File;
use redial_proxy::Proxy;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failed::Failed;

/// Run the sidecar: forward requests under the policies of a file.
///
/// It listens on the address of each [upstream.NAME] of the file, and ends on SIGTERM or SIGINT when the requests in
/// flight have been answered.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A policy file with [upstream.NAME] tables.
    file: PathBuf,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let place = args.file.display();
    let text = fs::read_to_string(&args.file).map_err(|error| Failed::input(&place, error))?;
    let file = File::read(&text).map_err(|problem| Failed::input(&place, problem))?;
    if file.upstreams.is_empty() {
        let help = "add one, such as [upstream.api] with to = \"https://api.example.com\"";
        return Err(Failed::input(&place, format!("no [upstream.NAME] table: {help}")));
    }
    allow_open_files();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let proxy = Proxy::start(&file).map_err(|error| Failed::input(&place, error))?;
    for (upstream, address) in proxy.addresses() {
        writeln!(out, "{upstream}: {address}")?;
    }
    out.flush()?;
    signals.forever().next();
    proxy.drain();
    Ok(())
}

/// Each connection is an open file, and the usual limit of 1024 is for programs that use `select`.
fn allow_open_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // With the usual limit there are fewer connections.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}
