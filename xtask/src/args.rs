//! What did the user ask for? Six commands do not need an argument parser.

/// What `--help` prints.
pub const USAGE: &str = "\
usage: cargo xtask <command>

  setup                  install the programs that tests and benchmarks need
  test [-- ARGS]         start private servers, run every test; ARGS (a name filter, then perhaps
                         `-- --nocapture`) go to each `cargo test`
  tidy                   check the rules that the compiler does not know
  bench [NAME] [ARGS]    run the benchmark NAME, or whatever redial-bench runs without a name
  fuzz TARGET [SECONDS]  feed a parser whatever a fuzzer comes up with, for a minute unless told
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
