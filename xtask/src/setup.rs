//! Some tests connect to a real server and some benchmarks need a real tool. This installs the programs that are
//! missing on the machine; if it cannot, it reports what each is for and how to get it.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo::{find_program, shown, status};
use crate::{envoy, grpc};

/// What a tool is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// `cargo xtask test`.
    Test,
    /// `cargo xtask bench`.
    Bench,
}

/// A program from a Debian package.
#[derive(Debug)]
pub struct Tool {
    /// The package to install.
    pub package: &'static str,
    /// The program that is found if the package is installed.
    pub program: &'static str,
    /// What fails without it.
    pub why: &'static str,
    /// The commands that need it.
    pub used_by: &'static [Use],
    /// The service that the package starts, which is then stopped: it would hold the default port.
    pub service: Option<&'static str>,
}

/// Every tool; a new one is a new row.
pub const TOOLS: &[Tool] = &[
    Tool {
        package: "redis-server",
        program: "redis-server",
        why: "tests connect to a private Redis",
        used_by: &[Use::Test],
        service: Some("redis-server"),
    },
    Tool {
        package: "postgresql",
        program: "postgres",
        why: "tests connect to a private Postgres",
        used_by: &[Use::Test, Use::Bench],
        service: Some("postgresql"),
    },
    Tool {
        package: "prometheus",
        program: "promtool",
        why: "tests check the rules for Prometheus with it",
        used_by: &[Use::Test],
        service: Some("prometheus"),
    },
    Tool {
        package: "faketime",
        program: "faketime",
        why: "tests change the clock of a program with it",
        used_by: &[Use::Test],
        service: None,
    },
    Tool {
        package: "systemd",
        program: "systemd-analyze",
        why: "tests check the units of the sidecar with it",
        used_by: &[Use::Test],
        service: None,
    },
    Tool {
        package: "nginx-light",
        program: "nginx",
        why: "tests and benchmarks of the sidecar use it as a server and as a peer",
        used_by: &[Use::Test, Use::Bench],
        service: Some("nginx"),
    },
    Tool {
        package: "haproxy",
        program: "haproxy",
        why: "tests of the sidecar put it in front, and benchmarks beside it",
        used_by: &[Use::Test, Use::Bench],
        service: Some("haproxy"),
    },
    Tool {
        package: "wrk",
        program: "wrk",
        why: "it makes the load for the sidecar",
        used_by: &[Use::Test, Use::Bench],
        service: None,
    },
    Tool {
        package: "nodejs",
        program: "node",
        why: "tests of the sidecar use it as a client and as a server",
        used_by: &[Use::Test],
        service: None,
    },
    Tool {
        package: "npm",
        program: "npm",
        why: "it installs what builds the page, and what tests it",
        used_by: &[Use::Test],
        service: None,
    },
    Tool {
        package: "chromium",
        program: "chromium",
        why: "tests and benchmarks open the page in it",
        used_by: &[Use::Test, Use::Bench],
        service: None,
    },
    Tool {
        package: "curl",
        program: "curl",
        why: "tests of the sidecar use it as a client",
        used_by: &[Use::Test],
        service: None,
    },
    Tool {
        package: "valgrind",
        program: "valgrind",
        why: "`cargo xtask bench` counts instructions with it",
        used_by: &[Use::Bench],
        service: None,
    },
    Tool {
        package: "python3-pip",
        program: "pip3",
        why: "tests install Envoy and gRPC with it, and benchmarks install SimPy and retry libraries",
        used_by: &[Use::Test, Use::Bench],
        service: None,
    },
];

/// Installs every missing tool, Envoy and gRPC.
pub fn run() -> Result<(), String> {
    let missing = missing(TOOLS.iter());
    if !missing.is_empty() {
        install(&missing)?;
    }
    envoy::install()?;
    grpc::install()?;
    println!("everything is installed");
    Ok(())
}

/// Installs the missing tools for one use. A failure is only a warning: what needs the tool then fails with its name, and
/// all the rest still runs.
pub fn try_for(used_by: Use) {
    let missing = missing(TOOLS.iter().filter(|tool| tool.used_by.contains(&used_by)));
    if missing.is_empty() {
        return;
    }
    if let Err(message) = install(&missing) {
        eprintln!("warning: {message}");
    }
}

/// The message for missing tools that cannot be installed because of `reason`.
#[must_use]
pub fn explain(reason: &str, missing: &[&Tool]) -> String {
    let mut text = format!("cannot install missing programs ({reason}); install them by hand:");
    for Tool { package, program, why, .. } in missing {
        let _ = write!(text, "\n  {program}: {why}; on Debian `apt-get install {package}` as root");
    }
    text
}

fn missing(tools: impl Iterator<Item = &'static Tool>) -> Vec<&'static Tool> {
    tools.filter(|tool| find_program(tool.program).is_none()).collect()
}

fn install(tools: &[&'static Tool]) -> Result<(), String> {
    if find_program("apt-get").is_none() {
        return Err(explain("this system has no apt-get", tools));
    }
    let Some(root) = Root::find() else {
        return Err(explain("not root, and sudo needs a password", tools));
    };

    // If the update fails, the existing package lists may be good enough.
    status(&mut root.command(&["apt-get", "update"]))?;
    let mut apt = root.command(&["apt-get", "install", "-y", "--no-install-recommends"]);
    apt.args(tools.iter().map(|tool| tool.package));
    if !status(&mut apt)?.success() {
        return Err(explain(&format!("{} failed", shown(&apt)), tools));
    }

    // systemd starts services whatever the run level.
    if Path::new("/run/systemd/system").exists() {
        for service in tools.iter().filter_map(|tool| tool.service) {
            status(&mut root.command(&["systemctl", "disable", "--now", service]))?;
        }
    }

    let still: Vec<_> = missing(tools.iter().copied());
    if still.is_empty() {
        return Ok(());
    }
    Err(explain("apt-get installed the packages, but these programs are still missing", &still))
}

/// How to become root.
enum Root {
    Already,
    Sudo,
}

impl Root {
    fn find() -> Option<Self> {
        let id = Command::new("id").arg("-u").output().ok()?;
        if id.stdout.trim_ascii() == b"0" {
            return Some(Self::Already);
        }
        let sudo = Command::new("sudo")
            .args(["-n", "true"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        sudo.is_ok_and(|status| status.success()).then_some(Self::Sudo)
    }

    fn command(&self, words: &[&str]) -> Command {
        // sudo drops our variables, so `env` sets them. Run level 1 keeps Debian's init scripts from starting the service
        // of a package.
        let mut command = match self {
            Self::Already => Command::new("env"),
            Self::Sudo => Command::new("sudo"),
        };
        if matches!(self, Self::Sudo) {
            command.args(["-n", "env"]);
        }
        command.args(["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"]).args(words);
        command.stdin(Stdio::null());
        command
    }
}
