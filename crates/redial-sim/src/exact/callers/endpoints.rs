//! How instances choose among the endpoints of the backend.

use crate::exact::flight::{Origin, Target};
use crate::random::below;
use crate::scenario::{Choose, RetryTo};
use crate::{Scenario, Stream};

#[derive(Debug)]
pub(super) struct Endpoints {
    count: u32,
    choose: Choose,
    retry_to: RetryTo,
    /// The endpoints that the call of each caller has tried, as bits. The only one where calls stay at theirs.
    tried: Vec<u64>,
    /// The next endpoint of each instance; only for taking turns.
    turns: Vec<u32>,
    /// Attempts in flight, by instance and endpoint; only where the choice depends on them.
    in_flight: Vec<u32>,
    stream: Stream,
}

impl Endpoints {
    /// `None` if there is only one.
    pub(super) fn new(scenario: &Scenario, mut stream: Stream) -> Option<Self> {
        let (clients, count) = (&scenario.clients, scenario.backend.endpoints);
        let with = |choose, length: u32| if clients.choose == choose { length } else { 0 };
        let turns = with(Choose::RoundRobin, clients.instances);
        let counted = with(Choose::TwoChoices, clients.instances) as usize * count as usize;
        (count > 1).then(|| Self {
            count,
            choose: clients.choose,
            retry_to: clients.retry_to,
            tried: Vec::new(),
            turns: (0..turns).map(|_| stream.between(0, u64::from(count) - 1) as u32).collect(),
            in_flight: vec![0; counted],
            stream,
        })
    }

    /// The endpoint of the next attempt of a caller.
    pub(super) fn choose(&mut self, caller: u32, instance: u32, is_first: bool) -> u32 {
        let caller = caller as usize;
        if caller >= self.tried.len() {
            self.tried.resize(caller + 1, 0);
        }
        let tried = if is_first { 0 } else { self.tried[caller] };
        if !is_first && self.retry_to == RetryTo::Same {
            return tried.trailing_zeros();
        }
        let all = u64::MAX >> (u64::BITS - self.count);
        let chosen = self.among(all & !tried, instance);
        let bit = 1 << chosen;
        self.tried[caller] = match self.retry_to {
            RetryTo::Any => 0,
            // All were tried: only the last one is avoided from now on.
            RetryTo::Another if tried | bit == all => bit,
            RetryTo::Another | RetryTo::Same => tried | bit,
        };
        chosen
    }

    /// Where the call of this caller stays, if calls do.
    pub(super) fn of(&self, caller: u32) -> Option<u32> {
        let tried = self.tried.get(caller as usize).filter(|_| self.retry_to == RetryTo::Same);
        tried.map(|tried| tried.trailing_zeros())
    }

    /// Chooses one of these, which are bits.
    fn among(&mut self, open: u64, instance: u32) -> u32 {
        match self.choose {
            Choose::Random => self.random(open),
            Choose::RoundRobin => {
                let turn = &mut self.turns[instance as usize];
                let from = open >> *turn << *turn;
                let chosen = if from == 0 { open } else { from }.trailing_zeros();
                *turn = (chosen + 1) % self.count;
                chosen
            }
            Choose::TwoChoices => {
                let one = self.random(open);
                let rest = open & !(1 << one);
                if rest == 0 {
                    return one;
                }
                let other = self.random(rest);
                let load = |endpoint| self.in_flight[self.place(instance, endpoint)];
                if load(other) < load(one) { other } else { one }
            }
        }
    }

    fn random(&mut self, mut open: u64) -> u32 {
        for _ in 0..below(self.stream.bits(), u64::from(open.count_ones())) {
            open &= open - 1;
        }
        open.trailing_zeros()
    }

    fn place(&self, instance: u32, endpoint: u32) -> usize {
        instance as usize * self.count as usize + endpoint as usize
    }

    pub(super) fn sent(&mut self, target: &Target) {
        self.count_attempt(target, 1);
    }

    /// The client no longer waits for it.
    pub(super) fn landed(&mut self, target: &Target) {
        self.count_attempt(target, u32::MAX);
    }

    fn count_attempt(&mut self, target: &Target, by: u32) {
        let place = self.place(target.instance, target.shard);
        if let (Origin::Caller(_), Some(count)) = (target.origin, self.in_flight.get_mut(place)) {
            *count = count.wrapping_add(by);
        }
    }
}
