//! Which command is to run? A few commands do not need a crate for arguments.

use std::path::PathBuf;

use crate::prove::{MINUTES, PROOFS, Proof, ROUNDS};

/// What `--help` prints.
pub const USAGE: &str = "\
usage: cargo xtask <command>

  setup                  install the programs that tests and benchmarks need
  test [--busy] [-- ARGS]
                         start private servers and run every test; ARGS (a name filter, then perhaps
                         `-- --nocapture`) go to each test program; --busy runs two busy loops per
                         processor beside them
  tidy                   check the rules that the compiler does not know
  features               check that each feature builds without the others
  bench [NAME] [ARGS]    run the benchmark NAME; without a name, those that take a few minutes
  fuzz TARGET [SECONDS]  run a fuzz target of fuzz/fuzz_targets, for 60 seconds by default
  prove queue [--seed N] [--rounds N]
                         run the durable queue under random faults on both stores, and compare what
                         was acknowledged with what took effect; --seed repeats the plan of a run
  prove fleet            run 200 processes with one budget through the loss of their Redis
  prove proxy [--seed N] [--minutes N]
                         run the sidecar between upstreams and callers that fail in every way, and
                         check that each response belongs to its request; 10 minutes by default
  prove fuzz             run each fuzz target for a minute
  web                    build the page into crates/redial-web/dist, with Node
  screenshots [FOLDER]   remake the README's picture of the page; with FOLDER, take every page at
                         every size in both themes instead
  dist                   package each crate, build what is shipped, and make target/dist/redial-*.tar.gz
  ci                     fmt, tidy, web, clippy, features, examples, fuzz targets on their corpus, docs,
                         test: what a change must pass
  --help                 print this";

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Print [`USAGE`].
    Help,
    /// Install what is missing.
    Setup,
    /// Run the tests.
    Test {
        /// Whether busy loops run beside them.
        busy: bool,
        /// Passed on to each test program.
        extra: Vec<String>,
    },
    /// Check the rules.
    Tidy,
    /// Check each feature.
    Features,
    /// Run a benchmark.
    Bench {
        /// Passed on to `redial-bench`.
        args: Vec<String>,
    },
    /// Run a fuzz target.
    Fuzz {
        /// Its name in `fuzz/fuzz_targets`.
        target: String,
        /// How long it runs.
        seconds: u32,
    },
    /// Run a proof.
    Prove(Proof),
    /// Build the page.
    Web,
    /// Take pictures of the page.
    Screenshots {
        /// For all of them; without it, the README's.
        folder: Option<PathBuf>,
    },
    /// Make the archive that is shipped.
    Dist,
    /// Run every check.
    Ci,
}

/// Parses the arguments after the program's name.
///
/// # Errors
///
/// The message names the argument that is wrong and what is expected.
pub fn parse(args: &[String]) -> Result<Command, String> {
    let Some((name, rest)) = args.split_first() else {
        return Err("a command is missing".to_owned());
    };
    let is_help = |arg: &String| matches!(arg.as_str(), "--help" | "-h" | "help");
    if is_help(name) || rest.first().is_some_and(is_help) {
        return Ok(Command::Help);
    }
    match (name.as_str(), rest) {
        ("setup", []) => Ok(Command::Setup),
        ("tidy", []) => Ok(Command::Tidy),
        ("features", []) => Ok(Command::Features),
        ("screenshots", []) => Ok(Command::Screenshots { folder: None }),
        ("screenshots", [folder]) => Ok(Command::Screenshots { folder: Some(folder.into()) }),
        ("web", []) => Ok(Command::Web),
        ("dist", []) => Ok(Command::Dist),
        ("ci", []) => Ok(Command::Ci),
        ("bench", args) => Ok(Command::Bench { args: args.to_vec() }),
        ("fuzz", [target]) => Ok(Command::Fuzz { target: target.clone(), seconds: 60 }),
        ("fuzz", [target, seconds]) => match seconds.parse() {
            Ok(seconds) => Ok(Command::Fuzz { target: target.clone(), seconds }),
            Err(_) => Err(format!("`{seconds}` is not a number of seconds")),
        },
        ("fuzz", _) => Err("usage: fuzz TARGET [SECONDS]".to_owned()),
        ("prove", args) => prove(args),
        ("test", args) => test(args),
        ("setup" | "tidy" | "features" | "web" | "dist" | "ci", [arg, ..]) => {
            Err(format!("unexpected argument `{arg}`: `{name}` takes none"))
        }
        _ => Err(format!("unknown command `{name}`")),
    }
}

fn test(args: &[String]) -> Result<Command, String> {
    let busy = args.first().is_some_and(|arg| arg == "--busy");
    match &args[usize::from(busy)..] {
        [] => Ok(Command::Test { busy, extra: Vec::new() }),
        [dashes, extra @ ..] if dashes == "--" => Ok(Command::Test { busy, extra: extra.to_vec() }),
        [arg, ..] => {
            Err(format!("unexpected argument `{arg}`: put arguments for the tests after `--`"))
        }
    }
}

fn prove(args: &[String]) -> Result<Command, String> {
    let proofs = || format!("the proofs are: {}", PROOFS.join(", "));
    let Some((name, mut options)) = args.split_first() else {
        return Err(format!("`prove` needs the name of a proof; {}", proofs()));
    };
    if !PROOFS.contains(&name.as_str()) {
        return Err(format!("unknown proof `{name}`; {}", proofs()));
    }
    let plain = [("fleet", Proof::Fleet), ("fuzz", Proof::Fuzz)];
    if let Some((_, proof)) = plain.into_iter().find(|(plain, _)| plain == name) {
        return match options.first() {
            None => Ok(Command::Prove(proof)),
            Some(arg) => Err(format!("unexpected argument `{arg}`: `prove {name}` takes none")),
        };
    }
    let length = if name == "proxy" { "--minutes" } else { "--rounds" };
    let (mut seed, mut many) = (None, None);
    while let Some((option, rest)) = options.split_first() {
        let target = match option.as_str() {
            "--seed" => &mut seed,
            option if option == length => &mut many,
            _ => {
                return Err(format!(
                    "unexpected argument `{option}`: `prove {name}` takes --seed N and {length} N"
                ));
            }
        };
        let Some((value, rest)) = rest.split_first() else {
            return Err(format!("`{option}` needs a number"));
        };
        let number = value.parse::<u64>();
        *target = Some(number.map_err(|_| format!("`{option} {value}`: not a number"))?);
        options = rest;
    }
    if many == Some(0) {
        let unit = length.trim_start_matches('-').trim_end_matches('s');
        return Err(format!("`{length} 0`: at least one {unit} is needed"));
    }
    Ok(Command::Prove(match name.as_str() {
        "proxy" => Proof::Proxy { seed, minutes: many.unwrap_or(MINUTES) },
        _ => Proof::Queue { seed, rounds: many.unwrap_or(ROUNDS) },
    }))
}
