//! What was promised, what took effect, and whether the two agree.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::actors::Outcome;
use super::payload;
use super::plan::{Fault, Kind};
use super::site::Site;

/// The books of one run.
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

/// The sums of one run.
pub(super) struct Sums {
    pub(super) acknowledged: usize,
    pub(super) done: u64,
    pub(super) lost: usize,
    pub(super) duplicated: u64,
    pub(super) leases_lost: u64,
    pub(super) stale: u64,
    pub(super) faults: BTreeMap<Fault, u64>,
}

impl Account {
    pub(super) fn add(&mut self, outcome: Outcome) {
        self.offered.extend(outcome.offered);
        self.acknowledged.extend(outcome.acknowledged);
        outcome.faults.into_iter().for_each(|fault| *self.faults.entry(fault).or_default() += 1);
    }

    /// Takes the effects of commands since the last time. Those of deliveries stay with the receiver until the end.
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
        assert!(self.truncated.is_empty(), "truncated payloads: {:?}", self.truncated);

        let is_there = |name: &String| self.effects.iter().any(|all| all.contains_key(name));
        let lost: Vec<_> = self.acknowledged.iter().filter(|name| !is_there(name)).collect();
        assert!(lost.is_empty(), "acknowledged, and lost: {lost:?}");
        let names = self.effects.iter().flat_map(BTreeMap::keys);
        let unexpected: Vec<_> = names.filter(|name| !self.offered.contains(*name)).collect();
        assert!(unexpected.is_empty(), "never offered: {unexpected:?}");

        let mut sums = Sums {
            acknowledged: self.acknowledged.len(),
            done: 0,
            lost: lost.len(),
            duplicated: 0,
            leases_lost: 0,
            stale: 0,
            faults: self.faults,
        };
        for kind in Kind::ALL {
            sums.add(&self.effects[kind as usize], &site.lab(kind).stats());
        }
        sums
    }
}

impl Sums {
    fn add(&mut self, effects: &BTreeMap<String, Effects>, stats: &Value) {
        let keys: BTreeSet<_> = effects.values().flat_map(|job| &job.keys).collect();
        assert!(effects.values().all(|job| job.keys.len() == 1), "a key stays: {effects:?}");
        assert_eq!(keys.len(), effects.len(), "each job has its own key");
        // Each claim is a new attempt, so an attempt that took effect twice was claimed once and made twice.
        for (name, Effects { attempts, .. }) in effects {
            let distinct: BTreeSet<_> = attempts.iter().collect();
            assert_eq!(distinct.len(), attempts.len(), "{name} took effect in {attempts:?}");
        }

        let count = |name| count(stats, name);
        for name in ["due", "later", "held", "running", "dead", "died", "dropped"] {
            assert_eq!(count(name), 0, "{name}: {stats}");
        }
        let jobs = effects.len() as u64;
        assert_eq!((count("enqueued"), count("done")), (jobs, jobs), "{stats}");
        // What has taken effect without being settled is done again only when its lease has run out.
        let times: usize = effects.values().map(|job| job.attempts.len()).sum();
        let duplicated = times as u64 - jobs;
        assert!(duplicated <= count("lost"), "{duplicated} duplicated: {stats}");
        self.done += jobs;
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
