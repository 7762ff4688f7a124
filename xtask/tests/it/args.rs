//! The command line.

use xtask::args::{Command, parse};
use xtask::prove::{MINUTES, Proof, ROUNDS};

fn check(line: &str) -> Result<Command, String> {
    parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn each_command_is_known() {
    assert_eq!(check("setup"), Ok(Command::Setup));
    assert_eq!(check("tidy"), Ok(Command::Tidy));
    assert_eq!(check("features"), Ok(Command::Features));
    assert_eq!(check("web"), Ok(Command::Web));
    assert_eq!(check("dist"), Ok(Command::Dist));
    assert_eq!(check("ci"), Ok(Command::Ci));
    assert_eq!(check("test"), Ok(Command::Test { busy: false, extra: words("") }));
    assert_eq!(check("test --busy"), Ok(Command::Test { busy: true, extra: words("") }));
    assert_eq!(check("bench"), Ok(Command::Bench { args: words("") }));
}

#[test]
fn arguments_are_passed_on() {
    let test = |busy| Ok(Command::Test { busy, extra: words("a -- --b") });
    assert_eq!(check("test -- a -- --b"), test(false));
    assert_eq!(check("test --busy -- a -- --b"), test(true));
    assert_eq!(check("bench call --quick"), Ok(Command::Bench { args: words("call --quick") }));
}

#[test]
fn help_is_help_everywhere() {
    for line in ["--help", "-h", "help", "test --help", "tidy -h"] {
        assert_eq!(check(line), Ok(Command::Help), "{line}");
    }
}

#[test]
fn a_wrong_line_is_named() {
    assert_eq!(check(""), Err("a command is missing".to_owned()));
    assert_eq!(check("tset"), Err("unknown command `tset`".to_owned()));
    assert_eq!(check("tidy now"), Err("unexpected argument `now`: `tidy` takes none".to_owned()));
    let after_dashes = "unexpected argument `a`: put arguments for the tests after `--`";
    assert_eq!(check("test a"), Err(after_dashes.to_owned()));
}

#[test]
fn a_proof_has_a_seed_and_rounds() {
    let queue = |seed, rounds| Ok(Command::Prove(Proof::Queue { seed, rounds }));
    assert_eq!(check("prove queue"), queue(None, ROUNDS));
    assert_eq!(check("prove queue --seed 7"), queue(Some(7), ROUNDS));
    assert_eq!(check("prove queue --rounds 3 --seed 7"), queue(Some(7), 3));
    let proxy = |seed, minutes| Ok(Command::Prove(Proof::Proxy { seed, minutes }));
    assert_eq!(check("prove proxy"), proxy(None, MINUTES));
    assert_eq!(check("prove proxy --seed 7 --minutes 2"), proxy(Some(7), 2));
    assert_eq!(check("prove fleet"), Ok(Command::Prove(Proof::Fleet)));
    assert_eq!(check("prove fuzz"), Ok(Command::Prove(Proof::Fuzz)));
}

#[test]
fn a_wrong_proof_is_named() {
    let wrong = |line: &str, message: &str| assert_eq!(check(line), Err(message.to_owned()));
    wrong("prove", "`prove` needs the name of a proof; the proofs are: queue, fleet, proxy, fuzz");
    wrong("prove all", "unknown proof `all`; the proofs are: queue, fleet, proxy, fuzz");
    wrong("prove fleet 3", "unexpected argument `3`: `prove fleet` takes none");
    wrong("prove queue --seed", "`--seed` needs a number");
    wrong("prove queue --seed x", "`--seed x`: not a number");
    wrong("prove queue --rounds 0", "`--rounds 0`: at least one round is needed");
    wrong("prove proxy --minutes 0", "`--minutes 0`: at least one minute is needed");
    let takes = "unexpected argument `--rounds`: `prove proxy` takes --seed N and --minutes N";
    wrong("prove proxy --rounds 7", takes);
    let takes = "unexpected argument `7`: `prove queue` takes --seed N and --rounds N";
    wrong("prove queue 7", takes);
}
