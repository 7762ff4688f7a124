use redial_sim::scenario::{BuiltIn, Set};
use redial_sim::simulate::*;
use std::time::Instant;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let sets: Vec<Set> = args[2..].iter().map(|s| Set::read(s).unwrap()).collect();
    let sc = match BuiltIn::find(&args[0]).unwrap().read(&sets) {
        Ok(s) => s,
        Err(e) => {
            println!("{e}");
            return;
        }
    };
    let runs = args[1].parse().unwrap();
    println!("== {} {:?}", sc.title, sets.iter().map(|s| s.to_string()).collect::<Vec<_>>());
    for p in &sc.policies {
        let t = Instant::now();
        let s = simulate(
            &sc,
            &sc.subject(p).unwrap(),
            &Settings { runs, seed: 1, threads: 2, engine: Choice::Exact },
            &Watch::default(),
        );
        println!(
            "{p:18} calls {:9.0} ampl {:6.3} ok {:.4} peak {:6.2} srv {:5.2} rec {:8.0} lost {:.4} p50 {:6.1} p99 {:7.0} dup {:4.0} coll {:.2} compl {:7.0} wait {:8.0} healthy {:.4} retr {:.0} smear {:.0} | ev {:.1}M {:.1}s",
            s.mean("calls"),
            s.mean("amplification"),
            s.mean("success"),
            s.mean("peak_ratio"),
            s.mean("served_peak_ratio"),
            s.mean("recover_ms"),
            s.mean("goodput_lost"),
            s.mean("p50_ms"),
            s.mean("p99_ms"),
            s.mean("duplicates"),
            s.collapse.value,
            s.mean("completion_ms"),
            s.mean("waiting_max"),
            s.mean("healthy_lost"),
            s.mean("retries"),
            s.mean("smear_ms"),
            s.events as f64 / 1e6,
            t.elapsed().as_secs_f64()
        );
    }
}
