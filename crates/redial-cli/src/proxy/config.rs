//! The file of the sidecar, and the arguments that add to it.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use redial_core::Policy;
use redial_policy::file::{Address, File, Named, Setting, Upstream};

use super::Args;
use crate::check;
use crate::problem::plain_problem;

/// Where the configuration comes from.
pub(crate) struct Config {
    path: Option<PathBuf>,
    upstreams: Vec<Upstream>,
    /// The policy of these upstreams, if it is not the standard one.
    policy: Option<Policy>,
    threads: Option<u16>,
}

/// The name of the policy of the arguments.
const OF_ARGUMENTS: &str = "arguments";

impl Config {
    pub(super) fn new(args: &Args) -> Result<Self, String> {
        let Args { file, upstream, threads, .. } = args;
        let (path, policy) = (file.clone(), policy(args)?);
        Ok(Self { path, upstreams: upstream.clone(), policy, threads: *threads })
    }

    /// Only a file.
    pub(crate) fn of_file(path: &Path) -> Self {
        Self { path: Some(path.to_owned()), upstreams: Vec::new(), policy: None, threads: None }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Names the file in messages.
    pub(super) fn place(&self) -> String {
        self.path
            .as_ref()
            .map_or_else(|| "--upstream".to_owned(), |path| path.display().to_string())
    }

    /// Reads and checks it. The error says what is wrong, and where.
    pub(crate) fn read(&self) -> Result<File, String> {
        let mut file = match &self.path {
            Some(path) => read(path)?,
            None => File::default(),
        };
        if self.path.is_none() {
            // Several of them run on one machine, and have nothing to configure.
            file.proxy.admin = None;
        }
        for upstream in &self.upstreams {
            let is_known = |known: &Upstream| known.variable() == upstream.variable();
            if file.upstreams.iter().any(is_known) {
                return Err(format!("--upstream {}: there is one already", upstream.name));
            }
            let policy = self.policy.as_ref().map(|_| OF_ARGUMENTS.to_owned());
            file.upstreams.push(Upstream { policy, ..upstream.clone() });
        }
        if let Some(policy) = &self.policy {
            if file.policy(OF_ARGUMENTS).is_some() {
                return Err(format!("--policy: the file has a [policy.{OF_ARGUMENTS}] already"));
            }
            let (name, policy) = (OF_ARGUMENTS.to_owned(), policy.clone());
            file.policies.push(Named { name, policy, setting: Setting::default() });
        }
        if let Some(threads) = self.threads {
            file.proxy.threads = threads.into();
        }
        if file.upstreams.is_empty() {
            let help = "add one, such as [upstream.api] with to = \"https://api.example.com\"";
            return Err(format!("{}: no [upstream.NAME] table\n  help: {help}", self.place()));
        }
        Ok(file)
    }
}

fn read(path: &Path) -> Result<File, String> {
    let place = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{place}: {error}"))?;
    let file = File::read(&text).map_err(|problem| {
        format!(
            "{place}: not a valid policy file\n{}",
            plain_problem(&place.to_string(), &text, &problem)
        )
    })?;
    match check::errors(path) {
        Some(errors) => Err(format!("{place}: `redial check` finds errors\n{errors}")),
        None => Ok(file),
    }
}

/// The policy that the arguments describe; `None`, if they describe none.
fn policy(args: &Args) -> Result<Option<Policy>, String> {
    let named = args.policy.as_ref();
    if let Some(named) = named.filter(|named| named.policy.fleet().is_some()) {
        return Err(format!("--policy {}: a fleet needs a file with its ledger", named.name));
    }
    let policy = named.map(|named| named.policy.clone());
    let Some(timeout) = args.attempt_timeout else { return Ok(policy) };
    let draft = policy.unwrap_or_else(Policy::standard).edit();
    let draft = draft.attempt_timeout(timeout.into());
    draft.build().map(Some).map_err(|invalid| format!("--attempt-timeout: {invalid}"))
}

/// Reads NAME=URL.
pub(super) fn upstream(text: &str) -> Result<Upstream, String> {
    let one_line = |problem: &dyn fmt::Display| problem.to_string();
    let (name, url) =
        text.split_once('=').ok_or("must be NAME=URL, such as api=https://api.example.com")?;
    let target = url.parse().map_err(|problem| one_line(&problem))?;
    Upstream::new(name, vec![target]).map_err(|problem| one_line(&problem))
}

/// The environment of the program: where it reaches each upstream.
pub(super) fn urls(
    upstreams: &[Upstream],
    listeners: &[(String, Address)],
) -> Vec<(String, String)> {
    let url = |upstream: &Upstream| {
        let (_, address) = listeners.iter().find(|(name, _)| *name == upstream.name)?;
        let scheme = if upstream.listen_tls.is_some() { "https" } else { "http" };
        let url = match address {
            Address::Tcp(address) => format!("{scheme}://{}", reachable(*address)),
            Address::Unix(path) => format!("unix:{}", path.display()),
        };
        Some((upstream.variable(), url))
    };
    upstreams.iter().filter_map(url).collect()
}

/// The address for programs on this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
