//! What does the sidecar cost beside nginx, HAProxy and Envoy, each with one thread?
//!
//! All proxies run at the same time, and take turns in every round, so that other load on the machine affects all of them. The
//! processor time is that of the proxy's own threads, as the kernel counts it, over the requests that were answered.

mod contender;
mod load;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, process};

use crate::table::{Bar, Line, Part, Report};
use contender::{Contender, Kind, Origin};
use load::Load;
pub(crate) use load::hold;

const ROUNDS: usize = 7;
const TURN: Duration = Duration::from_secs(2);
const MIB: f64 = 1024.0 * 1024.0;

const NOTES: &[&str] = &[
    "Medians of 7 rounds of 2 s. Ratios are taken within a round. The origin is an nginx that answers at once; wrk makes the load.",
    "redial: attempts, budget and breaker of each endpoint are on. HAProxy has no retry-on, except where it says so.",
    "Half of saturation: half of the requests a second that HAProxy reaches with 32 connections, sent on a schedule.",
];

const LOADS: [(&str, Load); 3] = [
    ("processor time of a GET, one connection", Load { connections: 1, post: false }),
    ("the same with 32 connections", Load { connections: 32, post: false }),
    ("a POST of 1 KiB, 32 connections", Load { connections: 32, post: true }),
];

pub(crate) fn measure() -> Result<Report, String> {
    let folder = env::temp_dir().join(format!("redial-bench-proxy-{}", process::id()));
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let report = Bench::start(&folder).and_then(|mut bench| bench.report());
    let _ = fs::remove_dir_all(&folder);
    report
}

/// The path of a program that was built or installed for the bench.
fn beside(program: &str) -> Result<PathBuf, String> {
    let path = env::current_exe().map_err(|error| error.to_string())?.with_file_name(program);
    let missing = || format!("{} is missing: `cargo xtask bench proxy` builds it", path.display());
    if path.exists() { Ok(path) } else { Err(missing()) }
}

struct Bench {
    origin: Origin,
    contenders: Vec<Contender>,
    absent: Vec<String>,
}

impl Bench {
    fn start(folder: &Path) -> Result<Self, String> {
        let origin = Origin::start(folder)?;
        let (mut contenders, mut absent) = (Vec::new(), Vec::new());
        for kind in Kind::ALL {
            match Contender::start(kind, folder, &origin) {
                Ok(contender) => contenders.push(contender),
                Err(why) if kind.is_peer() => absent.push(format!("{}: {why}", kind.name())),
                Err(why) => return Err(why),
            }
        }
        Ok(Self { origin, contenders, absent })
    }

    fn report(&mut self) -> Result<Report, String> {
        let memory =
            self.contenders.iter().map(Contender::memory).collect::<Result<Vec<_>, _>>()?;
        let mut rows = Vec::new();
        let (mut speeds, mut two_threads) = (Vec::new(), f64::NAN);
        for (what, load) in LOADS {
            let [costs, per_second] = self.rounds(load)?;
            let relative = self.relative_to(Kind::Haproxy, &costs);
            rows.push(vec![self.line(what, &relative, Bar::AtMost(1.0))]);
            if load.connections > 1 && !load.post {
                two_threads = self.relative_to(Kind::Redial, &costs)[self.place(Kind::Redial2)];
                speeds = per_second;
            }
        }
        let direct = &speeds[self.contenders.len()];
        let share =
            |speed: &Vec<f64>| median(speed.iter().zip(direct).map(|(it, direct)| it / direct));
        let shares: Vec<f64> = speeds.iter().map(share).collect();
        let bar = Bar::AtLeast(shares[self.place(Kind::Haproxy)]);
        rows.push(vec![self.line("requests a second, relative to direct ones", &shares, bar)]);
        let half = median(speeds[self.place(Kind::Haproxy)].iter().copied()) / 2.0;
        rows.push(vec![self.added(half)?]);
        rows.push(self.memories(&memory)?);
        let peers = vec![];
        rows.push(vec![Line::new(
            "two threads, processor time beside one",
            peers,
            two_threads,
            Bar::AtMost(1.15),
        )]);
        Ok(Report::new(rows, NOTES).with(self.absent.clone()))
    }

    fn place(&self, kind: Kind) -> usize {
        self.contenders.iter().position(|it| it.kind == kind).unwrap_or_default()
    }

    /// For each contender and round: nanoseconds of its processor time per request, and requests a second; the origin is the last.
    fn rounds(&self, load: Load) -> Result<[Vec<Vec<f64>>; 2], String> {
        let addresses = self.contenders.iter().map(|it| &it.address).chain([&self.origin.address]);
        let addresses: Vec<&String> = addresses.collect();
        let mut costs = vec![Vec::new(); self.contenders.len()];
        let mut speeds = vec![Vec::new(); addresses.len()];
        for round in 0..=ROUNDS {
            for (place, address) in addresses.iter().enumerate() {
                let contender = self.contenders.get(place);
                let before = contender.map_or(Ok(0), Contender::processor_time)?;
                let requests = load.run(address, TURN)?;
                let after = contender.map_or(Ok(0), Contender::processor_time)?;
                // The first round fills pools and caches.
                if round > 0 {
                    speeds[place].push(requests / TURN.as_secs_f64());
                    if contender.is_some() {
                        costs[place].push((after - before) as f64 / requests);
                    }
                }
            }
        }
        Ok([costs, speeds])
    }

    fn relative_to(&self, kind: Kind, costs: &[Vec<f64>]) -> Vec<f64> {
        let base = &costs[self.place(kind)];
        let ratio = |costs: &Vec<f64>| median(costs.iter().zip(base).map(|(it, base)| it / base));
        costs.iter().map(ratio).collect()
    }

    /// A line with one number per contender.
    fn line(&self, what: &'static str, values: &[f64], bar: Bar) -> Line {
        let named = self.contenders.iter().zip(values);
        let peers = named.filter(|(it, _)| it.kind.is_peer());
        let peers = peers.map(|(it, value)| Part { name: it.kind.name(), value: *value }).collect();
        Line::new(what, peers, values[self.place(Kind::Redial)], bar)
    }

    /// What each adds to the 99th percentile, in microseconds, when requests arrive on a schedule.
    fn added(&self, per_second: f64) -> Result<Line, String> {
        let mut added = vec![Vec::new(); self.contenders.len()];
        for _ in 0..ROUNDS {
            let direct = load::p99(&self.origin.address, per_second, TURN)?;
            for (place, contender) in self.contenders.iter().enumerate() {
                added[place].push(load::p99(&contender.address, per_second, TURN)? - direct);
            }
        }
        let added: Vec<f64> = added.into_iter().map(median).collect();
        let bar = Bar::AtMost(added[self.place(Kind::Haproxy)]);
        Ok(self.line("added p99 at half of saturation, µs", &added, bar))
    }

    fn memories(&self, few: &[f64]) -> Result<Vec<Line>, String> {
        let mut many = Vec::new();
        for contender in &self.contenders {
            let _held = load::Held::open(&contender.address, load::MANY)?;
            many.push(contender.memory()? / MIB);
        }
        let few: Vec<f64> = few.iter().map(|bytes| bytes / MIB).collect();
        Ok(vec![
            self.line("resident memory with 32 connections, MiB", &few, Bar::AtMost(16.0)),
            self.line("the same with 10,000", &many, Bar::AtMost(150.0)),
        ])
    }
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
