//! Compares what producers have acknowledged with what took effect.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::actors::Outcome;
use super::payload;
use super::plan::{Fault, Kind};
use super::site::Site;

/// What is known about the jobs of one run.
#[derive(Default)]
pub(super) struct Account {
    offered: BTreeSet<String>,
    acknowledged: BTreeSet<String>,
    faults: BTreeMap<Fault, u64>,
    /// What took effect, by the name of its job, for each kind.
    effects: [BTreeMap<String, Effects>; 2],
    /// Payloads that were not whole.
    truncated: Vec<String>,
}

/// The effects of one job.
#[derive(Debug, Default)]
struct Effects {
    attempts: Vec<u32>,
    keys: BTreeSet<String>,
}

/// The counts of one run, and the promises that were broken.
#[derive(Default)]
pub(super) struct Sums {
    acknowledged: usize,
    done: u64,
    lost: usize,
    duplicated: u64,
    leases_lost: u64,
    stale: u64,
    faults: BTreeMap<Fault, u64>,
    /// One message for each broken promise.
    pub(super) broken: Vec<String>,
}

impl Account {
    pub(super) fn add(&mut self, outcome: Outcome) {
        self.offered.extend(outcome.offered);
        self.acknowledged.extend(outcome.acknowledged);
        outcome.faults.into_iter().for_each(|fault| *self.faults.entry(fault).or_default() += 1);
    }

    /// Reads the effects of commands since the last call. The receiver keeps those of deliveries until the end.
    pub(super) fn collect(&mut self, site: &Site) {
        for (file, content) in site.collect() {
            let mut parts = file.split('.');
            let (attempt, key) = (parts.next().unwrap(), parts.next().unwrap());
            let payload = String::from_utf8(content).unwrap();
            self.note(Kind::Commands, &payload, attempt.parse().unwrap(), key);
        }
    }

    fn note(&mut self, kind: Kind, payload: &str, attempt: u32, key: &str) {
        let Some(name) = payload::name_if_whole(payload) else {
            self.truncated.push(payload.chars().take(60).collect());
            return;
        };
        let effects = self.effects[kind as usize].entry(name.to_owned()).or_default();
        effects.attempts.push(attempt);
        effects.keys.insert(key.to_owned());
    }

    /// Whether each of these faults has happened, and leases were lost in both queues.
    pub(super) fn has_tested(&self, faults: &[Fault], site: &Site) -> bool {
        faults.iter().all(|fault| self.faults.contains_key(fault))
            && Kind::ALL.iter().all(|kind| count(&site.lab(*kind).stats(), "lost") > 0)
    }

    /// Checks everything, once nothing is left to be done.
    pub(super) fn close(mut self, site: &Site) -> Sums {
        self.collect(site);
        for (payload, got) in site.lab(Kind::Deliveries).sink.got() {
            for (attempt, key) in got.requests {
                self.note(Kind::Deliveries, &payload, attempt, &key);
            }
        }
        self.sums(&Kind::ALL.map(|kind| site.lab(kind).stats()))
    }

    fn sums(self, stats: &[Value; 2]) -> Sums {
        let is_done = |name: &String| self.effects.iter().any(|all| all.contains_key(name));
        let lost: Vec<_> = self.acknowledged.iter().filter(|name| !is_done(name)).collect();
        let names = self.effects.iter().flat_map(BTreeMap::keys);
        let unexpected: Vec<_> = names.filter(|name| !self.offered.contains(*name)).collect();

        let mut sums = Sums {
            acknowledged: self.acknowledged.len(),
            lost: lost.len(),
            faults: self.faults,
            ..Sums::default()
        };
        let truncated = &self.truncated;
        sums.expect(truncated.is_empty(), || format!("truncated payloads: {truncated:?}"));
        sums.expect(lost.is_empty(), || format!("acknowledged, but never done: {lost:?}"));
        sums.expect(unexpected.is_empty(), || format!("done, but never offered: {unexpected:?}"));
        for (effects, stats) in self.effects.iter().zip(stats) {
            sums.add(effects, stats);
        }
        sums
    }
}

impl Sums {
    fn expect(&mut self, is_kept: bool, otherwise: impl FnOnce() -> String) {
        if !is_kept {
            self.broken.push(otherwise());
        }
    }

    /// Adds one queue.
    fn add(&mut self, effects: &BTreeMap<String, Effects>, stats: &Value) {
        for (name, Effects { attempts, keys }) in effects {
            self.expect(keys.len() == 1, || format!("{name} has several keys: {keys:?}"));
            // Each claim is a new attempt: the same number twice means that one claim was executed twice.
            let distinct: BTreeSet<_> = attempts.iter().collect();
            let is_repeated = distinct.len() < attempts.len();
            self.expect(!is_repeated, || format!("{name} repeats an attempt: {attempts:?}"));
        }
        let keys: BTreeSet<_> = effects.values().flat_map(|job| &job.keys).collect();
        self.expect(keys.len() >= effects.len(), || "jobs share an idempotency key".to_owned());

        let count = |name| count(stats, name);
        for name in ["due", "later", "held", "running", "dead", "died", "dropped"] {
            self.expect(count(name) == 0, || format!("{name} is not 0: {stats}"));
        }
        let jobs = effects.len() as u64;
        let is_settled = (count("enqueued"), count("done")) == (jobs, jobs);
        self.expect(is_settled, || format!("{jobs} jobs took effect: {stats}"));
        // A job that took effect and was not settled is done again only after its lease has run out.
        let times: usize = effects.values().map(|job| job.attempts.len()).sum();
        let duplicated = times as u64 - jobs;
        self.expect(duplicated <= count("lost"), || format!("{duplicated} duplicated: {stats}"));
        self.done += count("done");
        self.duplicated += duplicated;
        self.leases_lost += count("lost");
        self.stale += count("stale");
    }

    pub(super) fn table(&self, store: &str, rounds: u64) -> String {
        let refused = self.faults.get(&Fault::RefusedClock).unwrap_or(&0);
        let columns = [
            ("store", store.to_owned()),
            ("rounds", rounds.to_string()),
            ("acknowledged", self.acknowledged.to_string()),
            ("done", self.done.to_string()),
            ("lost", self.lost.to_string()),
            ("duplicated", self.duplicated.to_string()),
            ("leases lost", self.leases_lost.to_string()),
            ("stale", self.stale.to_string()),
            ("refused", refused.to_string()),
        ];
        let width = |(name, value): &(&str, String)| name.len().max(value.len());
        let line = |cell: fn(&(&str, String)) -> String| {
            let cells = columns.iter().map(|one| format!("{:>1$}", cell(one), width(one)));
            cells.collect::<Vec<_>>().join("  ")
        };
        let faults = self.faults.iter().map(|(fault, count)| format!("{} {count}", fault.name()));
        let faults = faults.collect::<Vec<_>>().join(", ");
        let (head, row) = (line(|(name, _)| (*name).to_owned()), line(|(_, value)| value.clone()));
        format!("{head}\n{row}\nfaults: {faults}")
    }
}

fn count(stats: &Value, name: &str) -> u64 {
    stats[name].as_u64().unwrap()
}

/// Three deliveries that were acknowledged and done, one of them twice after a lost lease.
fn balanced() -> (Account, Value) {
    let mut account = Account::default();
    for (name, attempts) in [("a", &[1_u32][..]), ("b", &[1, 3]), ("c", &[2])] {
        account.offered.insert(name.to_owned());
        account.acknowledged.insert(name.to_owned());
        for attempt in attempts {
            account.note(Kind::Deliveries, &payload::make(name, 100), *attempt, name);
        }
    }
    let mut stats = nothing();
    stats["enqueued"] = 3.into();
    stats["done"] = 3.into();
    stats["lost"] = 1.into();
    (account, stats)
}

fn nothing() -> Value {
    let names = ["due", "later", "held", "running", "dead", "died", "dropped"];
    let counts = names.into_iter().chain(["enqueued", "done", "lost", "stale"]);
    counts.map(|name| (name.to_owned(), 0.into())).collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn a_broken_promise_is_detected() {
    type Change = fn(&mut Account, &mut Value);
    let cases: [(Change, &str); 9] = [
        (|account, _| account.acknowledged.extend(["d".to_owned()]), "never done"),
        (|account, _| account.offered.retain(|name| name != "a"), "never offered"),
        (|account, _| account.note(Kind::Deliveries, "a 7", 1, "a"), "truncated"),
        (|account, _| account.note(Kind::Deliveries, &payload::make("b", 9), 4, "x"), "keys"),
        (|account, _| account.note(Kind::Deliveries, &payload::make("b", 9), 3, "b"), "repeats"),
        (|account, _| account.note(Kind::Deliveries, &payload::make("c", 9), 3, "c"), "duplicated"),
        (|_, stats| stats["lost"] = 0.into(), "duplicated"),
        (|_, stats| stats["done"] = 4.into(), "took effect"),
        (|_, stats| stats["dead"] = 1.into(), "dead is not 0"),
    ];
    let (account, stats) = balanced();
    assert_eq!(account.sums(&[stats, nothing()]).broken, [""; 0]);
    for (change, noticed) in cases {
        let (mut account, mut stats) = balanced();
        change(&mut account, &mut stats);
        let broken = account.sums(&[stats, nothing()]).broken;
        assert!(broken.iter().any(|one| one.contains(noticed)), "{noticed}: {broken:?}");
    }
}
