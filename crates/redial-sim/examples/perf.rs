use redial_sim::simulate::Watch;
use redial_sim::{Scenario, Stream, Wheel, exact};
use std::time::Instant;
fn rss() -> String {
    std::fs::read_to_string("/proc/self/status")
        .unwrap()
        .lines()
        .filter(|l| l.starts_with("VmHWM"))
        .collect()
}
fn main() {
    let which = std::env::args().nth(1).unwrap();
    if which == "wheel" {
        let n = 1_000_000u32;
        let mut w = Wheel::default();
        let mut s = Stream::new(1);
        for i in 0..n {
            w.push(s.between(0, 1_000_000_000), i);
        }
        let t = Instant::now();
        let ev = 30_000_000u64;
        for _ in 0..ev {
            let (now, what) = w.pop().unwrap();
            w.push(now + s.between(0, 1_000_000_000), what);
        }
        println!("wheel {:.1}M/s", ev as f64 / t.elapsed().as_secs_f64() / 1e6);
        return;
    }
    let text = match which.as_str() {
        "1m" => {
            r#"
title = "1M"
duration = "60s"
policies = ["standard"]
[clients]
instances = 1000
arrivals = { closed = { callers = 1000000, think = { exponential = "1s" } } }
[backend]
[brownout]
start = "5s"
duration = "50s"
share = 0.3
"#
        }
        "small" => {
            r#"
title = "1M"
duration = "10s"
policies = ["standard"]
[clients]
instances = 10
arrivals = { closed = { callers = 100000, think = { exponential = "1s" } } }
[backend]
[brownout]
start = "1s"
duration = "8s"
share = 0.3
"#
        }
        "1mq" => {
            r#"
title = "1M"
duration = "20s"
policies = ["standard"]
[clients]
instances = 1000
arrivals = { closed = { callers = 1000000, think = { exponential = "1s" } } }
[backend]
servers = 12000
service = { exponential = "10ms" }
queue = 100000
[outage]
start = "5s"
duration = "2s"
"#
        }
        _ => {
            r#"
title = "25M"
duration = "60s"
policies = ["full"]
[clients]
instances = 1000
arrivals = { synchronised = { callers = 25000000 } }
[backend]
[outage]
start = "0s"
duration = "1s"
[policy.full]
attempts = 6
deadline = "30s"
backoff = { base = "1s", cap = "10s", jitter = "full" }
budget = { window = { ratio = 1.0, floor = "1000000/s" } }
"#
        }
    };
    let scenario = Scenario::read(text, &[]).unwrap();
    let subject = scenario.subject(&scenario.policies[0]).unwrap();
    let t = Instant::now();
    let run = exact::run(&scenario, &subject, 1, &Watch::default());
    let s = t.elapsed().as_secs_f64();
    println!(
        "{which}: calls {} attempts {} success {:.3} events {} in {s:.2}s = {:.1}M/s; {} peak {}",
        run.calls,
        run.attempts,
        run.success,
        run.events,
        run.events as f64 / s / 1e6,
        rss(),
        run.peak_ratio
    );
}
