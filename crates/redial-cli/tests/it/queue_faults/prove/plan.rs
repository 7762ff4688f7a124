//! The plan of a run, as a pure function of its seed: which processes there are, what they enqueue, and which faults hit
//! them at which point. The interleaving of the processes is not part of it.

use crate::queue_faults::Random;

/// How many faults a round has.
const FAULTS: usize = 3;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    KillProducer,
    KillWorker,
    StopWorker,
    StallStderr,
    ShiftClock,
    RefusedClock,
    FillDisk,
    CutConnections,
    RestartServer,
}

impl Fault {
    /// What it is called in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::KillProducer => "producers killed",
            Self::KillWorker => "workers killed",
            Self::StopWorker => "workers stopped beyond their lease",
            Self::StallStderr => "stderr stalled",
            Self::ShiftClock => "clock off by up to 6 days",
            Self::RefusedClock => "clock refused",
            Self::FillDisk => "disk full",
            Self::CutConnections => "connections cut",
            Self::RestartServer => "server killed and restarted",
        }
    }
}

/// Each kind at least once. Faults that end leases come more often.
pub(super) const ON_SQLITE: &[Fault] = &[
    Fault::KillProducer,
    Fault::KillWorker,
    Fault::KillWorker,
    Fault::StopWorker,
    Fault::StopWorker,
    Fault::StallStderr,
    Fault::ShiftClock,
    Fault::RefusedClock,
    Fault::FillDisk,
];

/// Clock and disk are those of the server, so wrong clocks and full disks are not among them.
pub(super) const ON_POSTGRES: &[Fault] = &[
    Fault::KillProducer,
    Fault::KillWorker,
    Fault::KillWorker,
    Fault::StopWorker,
    Fault::StopWorker,
    Fault::StallStderr,
    Fault::CutConnections,
    Fault::RestartServer,
];

/// What the jobs of a queue are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Deliveries,
    Commands,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Deliveries, Self::Commands];
}

/// After so many effects of the round, or numbers that a producer has printed, and so many milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) count: u64,
    pub(super) millis: u64,
}

/// What is done to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Unharmed,
    Killed(Moment),
    /// Stopped by SIGSTOP, for so many milliseconds longer than its lease.
    Stopped(Moment, u64),
    /// Its stderr is full and is not read.
    Stalled,
    /// Its clock is off by so many days: up to 6 are tolerated.
    Clock(i64),
    /// Its files cannot grow beyond so many KiB.
    FullDisk(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The lengths of the payloads. One process enqueues them all as lines, or there is one process for each.
    Producer {
        lengths: Vec<usize>,
        as_lines: bool,
    },
    Worker,
}

/// A process, or several in sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Actor {
    pub(super) kind: Kind,
    pub(super) role: Role,
    pub(super) fate: Fate,
}

/// All connections to the server are closed, or the server is killed and started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outage {
    pub(super) at: Moment,
    pub(super) restart: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) number: u64,
    pub(super) actors: Vec<Actor>,
    pub(super) outages: Vec<Outage>,
}

/// The rounds of a run, without end.
pub(super) struct Plan {
    random: Random,
    faults: &'static [Fault],
    /// Faults are dealt like cards: each of `faults` comes once before any of them comes again.
    deck: Vec<Fault>,
    rounds: u64,
}

impl Plan {
    pub(super) fn new(seed: u64, faults: &'static [Fault]) -> Self {
        Self { random: Random(seed), faults, deck: Vec::new(), rounds: 0 }
    }

    fn deal(&mut self) -> Fault {
        if self.deck.is_empty() {
            self.deck = self.faults.to_vec();
        }
        let card = self.random.below(self.deck.len() as u64) as usize;
        self.deck.swap_remove(card)
    }

    fn kind(&mut self) -> Kind {
        Kind::ALL[self.random.below(2) as usize]
    }

    fn moment(&mut self) -> Moment {
        Moment { count: self.random.below(25), millis: self.random.below(40) }
    }

    /// Mostly small, and some that are larger than any pipe or page.
    fn length(&mut self) -> usize {
        let most = match self.random.below(20) {
            0 => 400_000,
            1 | 2 => 70_000,
            3..=6 => 8_000,
            _ => 200,
        };
        self.random.below(most) as usize
    }

    fn producer(&mut self, fate: Fate) -> Actor {
        // An unharmed producer has enough jobs for all workers of the round.
        let as_lines = fate == Fate::Unharmed || self.random.below(2) == 0;
        let jobs = if as_lines { 30 + self.random.below(40) } else { 1 + self.random.below(4) };
        let mut lengths: Vec<_> = (0..jobs).map(|_| self.length()).collect();
        if let Fate::FullDisk(kib) = fate {
            // This one alone exceeds the limit.
            lengths.push(kib as usize * 2048);
        }
        Actor { kind: self.kind(), role: Role::Producer { lengths, as_lines }, fate }
    }

    fn worker(&mut self, fate: Fate) -> Actor {
        Actor { kind: self.kind(), role: Role::Worker, fate }
    }

    fn either(&mut self, fate: Fate) -> Actor {
        if self.random.below(2) == 0 { self.producer(fate) } else { self.worker(fate) }
    }

    fn add(&mut self, fault: Fault, round: &mut Round) {
        let at = self.moment();
        let actor = match fault {
            Fault::KillProducer => self.producer(Fate::Killed(at)),
            Fault::KillWorker => self.worker(Fate::Killed(at)),
            Fault::StopWorker => {
                let longer = 50 + self.random.below(600);
                self.worker(Fate::Stopped(at, longer))
            }
            Fault::StallStderr => self.worker(Fate::Stalled),
            Fault::ShiftClock => {
                let days = 1 + self.random.below(6) as i64;
                let ahead = self.random.below(2) == 0;
                self.either(Fate::Clock(if ahead { days } else { -days }))
            }
            Fault::RefusedClock => {
                let days = [400, 400, 30, -30][self.random.below(4) as usize];
                self.either(Fate::Clock(days))
            }
            Fault::FillDisk => {
                let kib = 8 + self.random.below(100);
                self.either(Fate::FullDisk(kib))
            }
            Fault::CutConnections | Fault::RestartServer => {
                round.outages.push(Outage { at, restart: fault == Fault::RestartServer });
                return;
            }
        };
        round.actors.push(actor);
    }
}

impl Iterator for Plan {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        let number = self.rounds;
        self.rounds += 1;
        let mut round = Round { number, actors: Vec::new(), outages: Vec::new() };
        for kind in Kind::ALL {
            // Each queue always has jobs, and a worker that takes over from the others.
            let (producer, worker) = (self.producer(Fate::Unharmed), self.worker(Fate::Unharmed));
            round.actors.extend([Actor { kind, ..producer }, Actor { kind, ..worker }]);
        }
        for _ in 0..FAULTS {
            let fault = self.deal();
            self.add(fault, &mut round);
        }
        Some(round)
    }
}

#[test]
fn a_seed_is_a_plan() {
    let rounds = |seed| Plan::new(seed, ON_SQLITE).take(50).collect::<Vec<_>>();
    assert_eq!(rounds(7), rounds(7));
    assert_ne!(rounds(7), rounds(8));
}

#[test]
fn each_fault_comes_before_any_comes_again() {
    for seed in 0..50 {
        let mut plan = Plan::new(seed, ON_POSTGRES);
        let mut dealt: Vec<_> = ON_POSTGRES.iter().map(|_| plan.deal()).collect();
        dealt.sort();
        assert_eq!(dealt, ON_POSTGRES, "seed {seed}");
    }
}
