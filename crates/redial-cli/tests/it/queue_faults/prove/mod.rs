//! Producers and workers under random faults, many at once: `cargo xtask prove queue`. The plan of a run is a pure function
//! of its seed and can be repeated. The interleaving of the processes cannot.
#![allow(clippy::disallowed_methods, reason = "processes meet their faults in real time")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a run reports its seed and counts")]

mod account;
mod actors;
mod disturb;
mod payload;
mod plan;
mod site;

use std::thread;
use std::time::Duration;

use account::Account;
use plan::{Fault, Kind, ON_POSTGRES, ON_SQLITE, Plan};
use site::Site;

/// Set by `cargo xtask prove queue`.
const SEED: &str = "REDIAL_PROVE_SEED";
const ROUNDS: &str = "REDIAL_PROVE_ROUNDS";

/// The run of `cargo xtask test`, in which each fault comes at least twice.
const SHORT: Run = Run { seed: 20_261_115, rounds: 6, is_long: false };

#[derive(Clone, Copy)]
struct Run {
    seed: u64,
    rounds: u64,
    /// It has a Postgres of its own, which it kills and restarts.
    is_long: bool,
}

impl Run {
    fn from_environment() -> Self {
        let number = |name| Some(std::env::var(name).ok()?.parse::<u64>().expect(name));
        match (number(SEED), number(ROUNDS)) {
            (Some(seed), Some(rounds)) => Self { seed, rounds, is_long: true },
            _ => SHORT,
        }
    }

    fn command(self) -> String {
        format!("cargo xtask prove queue --seed {} --rounds {}", self.seed, self.rounds)
    }
}

/// Prints how to repeat a run that fails.
struct Replay(Run);

impl Drop for Replay {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the same plan again: {}", self.0.command());
        }
    }
}

#[test]
fn promises_hold_on_sqlite() {
    let run = Run::from_environment();
    let _replay = Replay(run);
    let site = Site::on_sqlite();
    // The process that creates the store sets its clock, so this one has the right time.
    for kind in Kind::ALL {
        let made = site.lab(kind).queue("resume").output().unwrap();
        assert!(made.status.success(), "{made:?}");
    }
    prove(run, "SQLite", &site, ON_SQLITE);
    let verified = site.lab(Kind::Commands).queue("verify").output().unwrap();
    assert_eq!(crate::text(&verified.stdout), "the store is intact\n", "{verified:?}");
}

#[test]
fn promises_hold_on_postgres() {
    let run = Run::from_environment();
    let _replay = Replay(run);
    prove(run, "Postgres", &Site::on_postgres(run.is_long), ON_POSTGRES);
}

fn prove(run: Run, store: &str, site: &Site, faults: &'static [Fault]) {
    println!("{store}: seed {}, at least {} rounds", run.seed, run.rounds);
    let mut account = Account::default();
    let expected: Vec<Fault> = faults
        .iter()
        .copied()
        .filter(|fault| *fault != Fault::RestartServer || site.may_restart())
        .collect();
    let (mut plan, mut rounds, mut has_tested) = (Plan::new(run.seed, faults), 0, false);
    // On a slow machine it may take more rounds until each fault has hit a process.
    while rounds < run.rounds || !has_tested && rounds < 3 * run.rounds {
        account.add(actors::play(site, &plan.next().unwrap()));
        account.collect(site);
        rounds += 1;
        has_tested = rounds >= run.rounds && account.has_tested(&expected, site);
    }
    for kind in Kind::ALL {
        let output = site.work(kind, false).args(["--until", "empty"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let sums = account.close(site);
    println!("{}", sums.table(store, rounds));
    assert!(sums.broken.is_empty(), "{:#?}", sums.broken);
    assert!(has_tested || run.is_long, "nothing was tested: some faults did not happen");
}

fn pause(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}
