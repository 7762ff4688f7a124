//! Benchmarks against peers, on this machine.
//!
//! Instructions are counted by callgrind and allocations by the allocator, so that two runs of one build agree; a
//! clock is read only where threads or timers are measured. Peers are measured in the same run, through the same
//! loop, because numbers from different machines cannot be compared.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a table is what it is for")]
#![allow(clippy::disallowed_methods, reason = "it measures clocks and timers")]

mod alloc;
mod callgrind;
mod cases;
mod check;
mod costs;
mod engine;
mod fidelity;
mod fleet;
mod http;
mod parked;
mod pip;
mod proxy;
mod queue;
mod ranking;
mod run;
mod sim;
mod storm;
mod table;
mod threads;
mod timers;
mod webhooks;

use std::process::ExitCode;
use std::{env, fmt};

const HELP: &str = "\
usage: redial-bench [COMMAND]

  check [--json]    `redial check` on ten thousand manifests; needs the command (`cargo xtask bench` builds it)
  engine [--json]   instructions, allocations and clock reads of one call, beside the peers;
                    needs valgrind (`cargo xtask setup`)
  fidelity [--json] [--runs N]
                    a blip and a brownout, simulated and as real traffic: means of N runs (10); takes twelve
                    minutes and an idle machine (`cargo xtask bench fidelity` raises its priority)
  fleet [--json]    what the ledger of a fleet costs its Redis, and a call; needs valgrind, and a Redis of its own
                    (`cargo xtask bench fleet` starts it)
  http [--json]     instructions and allocations of one request through each layer; needs valgrind
  proxy [--json]    the sidecar beside nginx, HAProxy and Envoy: processor time, throughput, latency, memory; takes ten minutes
                    and needs wrk and the peers (`cargo xtask bench proxy`)
  queue [--json] [--pending N] [--seconds N]
                    the queues, in memory and durable, beside their peers; N jobs wait in the SQLite file (1000000), and
                    workers run for N seconds (20); `cargo xtask bench queue` builds the peers and starts a Postgres
  ranking [--json] [--runs N]
                    retry libraries for Rust and Python in four kinds of trouble, ranked by simulated and by real calls, and
                    the bars of our default: means of N runs (10); takes an hour and needs pip3 (`cargo xtask bench ranking`)
  run [--json]      how much longer `redial run -- true` takes than `true` (`cargo xtask bench run` builds it)
  sim [--json]      the simulator beside SimPy and a bare timing wheel, and the published figures that it has
                    to reproduce (`--seed N` before --json repeats a run); needs valgrind and pip3
  storm [--json]    a real server that stands still for 200 ms, and the storm of its callers
  timers [--json]   how late the runners wake, and the effect on the jitter
  webhooks [--json | --seconds N]
                    how long nine receivers wait for their webhooks while a tenth never answers; rounds of N seconds (20)
  sim-case NAME N   makes one simulation with N callers, for callgrind or for its memory
  case NAME N       makes N calls of one case, for callgrind
  allocs NAME       allocations per call of one case
  cases             the names of the cases

Without a command: all of them except `fidelity`, `fleet`, `proxy`, `queue`, `ranking`, `run` and `webhooks`. A missed bar is marked RED; the exit code is 0
if everything could be measured, and no bar of `engine` and `http` is missed: these do not depend on the speed of the machine.";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("redial-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a report whose bars have to be kept.
fn checked(report: &table::Report) -> Result<(), String> {
    print!("{report}");
    report.check()
}

fn dispatch(args: &[&str]) -> Result<(), String> {
    match args {
        [] => {
            let all = ["check", "engine", "http", "timers", "parked", "storm", "sim"];
            let done: Vec<_> = all.iter().map(|name| dispatch(&[name])).collect();
            done.into_iter().collect()
        }
        ["check"] => check::measure().map(|report| print!("{report}")),
        ["check", "--json"] => check::measure().map(|report| print_json(&report)),
        ["engine"] => checked(&engine::measure()?),
        ["engine", "--json"] => engine::measure().map(|report| print_json(&report)),
        ["fidelity", rest @ ..] => real_traffic(rest, fidelity::measure),
        ["fleet"] => fleet::measure().map(|report| print!("{report}")),
        ["fleet", "--json"] => fleet::measure().map(|report| print_json(&report)),
        ["http"] => checked(&http::measure()?),
        ["http", "--json"] => http::measure().map(|report| print_json(&report)),
        ["parked"] => parked::measure().map(|report| print!("{report}")),
        ["parked", "--json"] => parked::measure().map(|report| print_json(&report)),
        ["proxy"] => proxy::measure().map(|report| print!("{report}")),
        ["proxy", "--json"] => proxy::measure().map(|report| print_json(&report)),
        ["proxy-hold", address, n] => {
            let n = n.parse().map_err(|_| format!("{n:?} is not a number of connections"))?;
            proxy::hold(address, n)
        }
        ["queue", args @ ..] => queue::command(args),
        ["queue-case", args @ ..] => queue::run_case(args),
        ["ranking", rest @ ..] => real_traffic(rest, ranking::measure),
        ["run"] => run::measure().map(|report| print!("{report}")),
        ["run", "--json"] => run::measure().map(|report| print_json(&report)),
        ["sim", args @ ..] => sim::command(args),
        ["sim-case", args @ ..] => sim::run_case(args),
        ["storm"] => storm::measure().map(|report| print!("{report}")),
        ["storm", "--json"] => storm::measure().map(|report| print_json(&report)),
        ["timers"] => timers::measure().map(|report| print!("{report}")),
        ["timers", "--json"] => timers::measure().map(|report| print_json(&report)),
        ["webhooks", args @ ..] => webhooks::command(args),
        ["case", name, n] => {
            let n = n.parse().map_err(|_| format!("{n:?} is not a number of calls"))?;
            cases::find(name).map(|case| (case.run)(n))
        }
        ["allocs", name] => cases::find(name).map(|case| println!("{}", alloc::per_call(case))),
        ["cases"] => {
            cases::all().for_each(|case| println!("{}", case.name));
            Ok(())
        }
        ["-h" | "--help" | "help", ..] => {
            println!("{HELP}");
            Ok(())
        }
        _ => Err(format!("unknown command {:?}\n\n{HELP}", args.join(" "))),
    }
}

fn real_traffic<R: fmt::Display + serde::Serialize>(
    args: &[&str],
    measure: fn(u32) -> Result<R, String>,
) -> Result<(), String> {
    let (json, args) = match args {
        ["--json", rest @ ..] => (true, rest),
        all => (false, all),
    };
    let runs = match args {
        [] => 10,
        ["--runs", n] => n.parse().map_err(|_| format!("{n:?} is not a number of runs"))?,
        _ => return Err(format!("unknown options {:?}\n\n{HELP}", args.join(" "))),
    };
    let report = measure(runs)?;
    if json {
        print_json(&report);
    } else {
        print!("{report}");
    }
    Ok(())
}

fn print_json(report: &impl serde::Serialize) {
    println!("{:#}", serde_json::json!(report));
}
