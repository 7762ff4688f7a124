//! What did the user ask for? A few commands do not need an argument parser.

use crate::prove::{PROOFS, ROUNDS};

/// What `--help` prints.
pub const USAGE: &str = "\
usage: cargo xtask <command>

  setup                  install the programs that tests and benchmarks need
  test [-- ARGS]         start private servers, run every test; ARGS (a name filter, then perhaps
                         `-- --nocapture`) go to each `cargo test`
  tidy                   check the rules that the compiler does not know
  bench [NAME] [ARGS]    run the benchmark NAME, or whatever redial-bench runs without a name
  fuzz TARGET [SECONDS]  feed a parser whatever a fuzzer comes up with, for a minute unless told
  prove queue [--seed N] [--rounds N]
                         run the durable queue under random faults on both stores, and compare what
                         was acknowledged with what took effect; the seed repeats the plan of a run
  ci                     fmt, clippy, features, tidy, docs, test: what a change must pass
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
        /// Goes to each `cargo test` as it is.
        extra: Vec<String>,
    },
    /// Check the rules.
    Tidy,
    /// Run a benchmark.
    Bench {
        /// Goes to `redial-bench` as it is.
        args: Vec<String>,
    },
    /// Run a fuzz target.
    Fuzz {
        /// Its name in `fuzz/fuzz_targets`.
        target: String,
        /// For how long.
        seconds: u32,
    },
    /// Run the durable queue under random faults.
    ProveQueue {
        /// Random if there is none.
        seed: Option<u64>,
        /// How many rounds on each store.
        rounds: u64,
    },
    /// Run every check.
    Ci,
}

/// Reads the arguments after the program's name; the error says what is wrong with them.
pub fn parse(args: &[String]) -> Result<Command, String> {
    let Some((name, rest)) = args.split_first() else {
        return Err("a command is missing".to_owned());
    };
    let asks_help = |arg: &String| matches!(arg.as_str(), "--help" | "-h" | "help");
    if asks_help(name) || rest.first().is_some_and(asks_help) {
        return Ok(Command::Help);
    }
    match (name.as_str(), rest) {
        ("setup", []) => Ok(Command::Setup),
        ("tidy", []) => Ok(Command::Tidy),
        ("ci", []) => Ok(Command::Ci),
        ("bench", args) => Ok(Command::Bench { args: args.to_vec() }),
        ("fuzz", [target]) => Ok(Command::Fuzz { target: target.clone(), seconds: 60 }),
        ("fuzz", [target, seconds]) => match seconds.parse() {
            Ok(seconds) => Ok(Command::Fuzz { target: target.clone(), seconds }),
            Err(_) => Err(format!("`{seconds}` is not a number of seconds")),
        },
        ("fuzz", _) => Err("`fuzz` takes the name of a target and perhaps seconds".to_owned()),
        ("prove", args) => prove(args),
        ("test", []) => Ok(Command::Test { extra: Vec::new() }),
        ("test", [dashes, extra @ ..]) if dashes == "--" => {
            Ok(Command::Test { extra: extra.to_vec() })
        }
        ("test", [arg, ..]) => {
            Err(format!("unexpected argument `{arg}`: put arguments for `cargo test` after `--`"))
        }
        ("setup" | "tidy" | "ci", [arg, ..]) => {
            Err(format!("unexpected argument `{arg}`: `{name}` takes none"))
        }
        _ => Err(format!("unknown command `{name}`")),
    }
}

fn prove(args: &[String]) -> Result<Command, String> {
    let proofs = || format!("the proofs are: {}", PROOFS.join(", "));
    let Some((name, mut options)) = args.split_first() else {
        return Err(format!("`prove` takes the name of a proof; {}", proofs()));
    };
    if !PROOFS.contains(&name.as_str()) {
        return Err(format!("unknown proof `{name}`; {}", proofs()));
    }
    let (mut seed, mut rounds) = (None, None);
    while let Some((option, rest)) = options.split_first() {
        let target = match option.as_str() {
            "--seed" => &mut seed,
            "--rounds" => &mut rounds,
            _ => {
                return Err(format!(
                    "unexpected argument `{option}`: `prove {name}` takes --seed N and --rounds N"
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
    if rounds == Some(0) {
        return Err("`--rounds 0`: at least one round is needed".to_owned());
    }
    Ok(Command::ProveQueue { seed, rounds: rounds.unwrap_or(ROUNDS) })
}
