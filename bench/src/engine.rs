//! What does a call cost that needs no retry? Most calls are such calls.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use redial_core::Call;
use tower::retry::budget::{Budget, TpsBudget};

use crate::callgrind::{self, Of};
use crate::table::{Bar, Line, Part, Report, Row};
use crate::threads::speed_up;
use crate::{alloc, cases};

const NOTES: &[&str] = &[
    "Instructions per call, unless a line says otherwise; bare is the same loop without any retry.",
    "By hand: no runner, no clock. (*) Ours is told the time, TpsBudget reads a clock.",
    "backon and tokio-retry have neither a budget nor a deadline, tower has no deadline.",
];

const BUSY: &str = "two threads ÷ one, but the machine was busy";

/// Cases whose clock reads and allocations are shown too.
const CALLS: &[&str] = &[
    "tower",
    "backon-async",
    "tokio-retry",
    "redial-async",
    "tower-resilience",
    "redial-breaker",
    "backon-blocking",
    "redial-blocking",
];

pub(crate) fn measure() -> Result<Report, String> {
    let costs = Costs::measure()?;
    let rows = [
        async_call(&costs),
        breaker(&costs),
        pending(&costs),
        blocking_call(&costs),
        delay(&costs),
        deposit(&costs),
        withdraw(&costs),
        vec![Line::new(
            "bytes of a call's state",
            vec![],
            size_of::<Call>() as f64,
            Bar::AtMost(32.0),
        )],
    ];
    let numbered = rows.into_iter().zip(1..).map(|(lines, number)| Row { number, lines });
    Ok(Report { rows: numbered.collect(), notes: NOTES })
}

fn async_call(costs: &Costs) -> Vec<Line> {
    const PEERS: [(&str, &str); 3] =
        [("tower+TpsBudget", "tower"), ("backon", "backon-async"), ("tokio-retry", "tokio-retry")];
    let (call, engine) = ("redial-async", "redial-engine");
    let all = [("bare", "bare-async"), PEERS[0], PEERS[1], PEERS[2]];
    let what = "async call, ready at once; budget, deadline";
    vec![
        Line::new(what, costs.list(&all), costs.of(call), Bar::AtMost(200.0)).made_of(costs.split(
            call,
            "bare-async",
            engine,
        )),
        Line::new("of it the engine, by hand", vec![], costs.of(engine), Bar::AtMost(90.0)),
        Line::new("of it the clock", vec![], costs.of("clock"), Bar::None),
        costs.allocations(&PEERS, call),
        costs.clock_reads(&PEERS, call, Bar::AtMost(1.0)),
        Line::new("with a concurrency limit", vec![], costs.of("redial-limited"), Bar::None),
    ]
}

fn breaker(costs: &Costs) -> Vec<Line> {
    const PEERS: [(&str, &str); 1] = [("tower-resilience breaker", "tower-resilience")];
    let (call, engine) = ("redial-breaker", "redial-engine-breaker");
    let what = "the same with a breaker";
    vec![
        Line::new(what, costs.list(&PEERS), costs.of(call), Bar::AtMost(260.0))
            .made_of(costs.split(call, "bare-async", engine)),
        Line::new("of it the engine, by hand", vec![], costs.of(engine), Bar::None),
        costs.allocations(&PEERS, call),
        costs.clock_reads(&PEERS, call, Bar::None),
    ]
}

fn pending(costs: &Costs) -> Vec<Line> {
    let peers = [("bare", "bare-pending"), ("tokio::time::timeout", "timeout")];
    let (ours, timer) = (costs.of("redial-pending"), costs.of("timeout"));
    let made_of = vec![part("timer", timer), part("everything else", ours - timer)];
    let what = "async call, pending once; budget, deadline";
    vec![Line::new(what, costs.list(&peers), ours, Bar::AtMost(timer + 150.0)).made_of(made_of)]
}

fn blocking_call(costs: &Costs) -> Vec<Line> {
    const PEERS: [(&str, &str); 1] = [("backon", "backon-blocking")];
    let (call, engine) = ("redial-blocking", "redial-engine");
    let all = [("bare", "bare-sync"), PEERS[0]];
    let what = "blocking call; budget, deadline";
    vec![
        Line::new(what, costs.list(&all), costs.of(call), Bar::AtMost(160.0)).made_of(costs.split(
            call,
            "bare-sync",
            engine,
        )),
        Line::new("of it the engine, by hand", vec![], costs.of(engine), Bar::AtMost(70.0)),
        costs.allocations(&PEERS, call),
        costs.clock_reads(&PEERS, call, Bar::AtMost(1.0)),
    ]
}

fn delay(costs: &Costs) -> Vec<Line> {
    let peers = [("backon", "backon-delay"), ("tokio-retry", "tokio-retry-delay")];
    let ours = costs.of("redial-delay");
    vec![Line::new("one jittered delay", costs.list(&peers), ours, Bar::AtMost(50.0))]
}

fn deposit(costs: &Costs) -> Vec<Line> {
    let peers = costs.list(&[("TpsBudget", "tps-deposit")]);
    let tps = TpsBudget::new(Duration::from_secs(10), 1, 1.0);
    let theirs = speed_up(|_| tps.deposit());
    let (guards, now) = (cases::new_guards(2), black_box(cases::NOW));
    let ours = speed_up(|stripe| guards.deposit(stripe, 1, now));
    let busy = theirs.disturbed || ours.disturbed;
    let threads = if busy { BUSY } else { "two threads ÷ one, by the clock" };
    let ratio = vec![part("TpsBudget", theirs.ratio)];
    vec![
        Line::new("budget: deposit (*)", peers, costs.of("redial-deposit"), Bar::AtMost(35.0)),
        Line::new(threads, ratio, ours.ratio, Bar::AtLeast(1.5)),
    ]
}

fn withdraw(costs: &Costs) -> Vec<Line> {
    let peers = costs.list(&[("TpsBudget", "tps-withdraw")]);
    let ours = costs.of("redial-withdraw");
    vec![Line::new("budget: deposit + withdraw (*)", peers, ours, Bar::AtMost(100.0))]
}

/// What each case costs per call.
struct Costs {
    instructions: BTreeMap<&'static str, f64>,
    clock_reads: BTreeMap<&'static str, f64>,
    allocations: BTreeMap<&'static str, f64>,
}

impl Costs {
    fn measure() -> Result<Self, String> {
        let called = || cases::ALL.iter().filter(|case| CALLS.contains(&case.name));
        let allocations = called().map(|case| (case.name, alloc::per_call(case))).collect();
        let names = || cases::ALL.iter().map(|case| case.name);
        let read = || called().map(|case| case.name);
        let jobs: Vec<(&str, Of)> = names()
            .map(|name| (name, Of::Everything))
            .chain(std::iter::once(("clock", Of::ClockReads)))
            .chain(read().map(|name| (name, Of::ClockReads)))
            .collect();
        let counts = callgrind::per_call(&jobs)?;
        let (instructions, clocks) = counts.split_at(cases::ALL.len());
        let one_read = clocks[0];
        let reads = clocks[1..].iter().map(|spent| spent / one_read);
        Ok(Self {
            instructions: names().zip(instructions.iter().copied()).collect(),
            clock_reads: read().zip(reads).collect(),
            allocations,
        })
    }

    fn of(&self, case: &str) -> f64 {
        self.instructions[case]
    }

    fn list(&self, peers: &[(&'static str, &str)]) -> Vec<Part> {
        Self::pick(&self.instructions, peers)
    }

    fn allocations(&self, peers: &[(&'static str, &str)], ours: &str) -> Line {
        let (peers, ours) = (Self::pick(&self.allocations, peers), self.allocations[ours]);
        Line::new("allocations", peers, ours, Bar::AtMost(0.0))
    }

    fn clock_reads(&self, peers: &[(&'static str, &str)], ours: &str, bar: Bar) -> Line {
        let (peers, ours) = (Self::pick(&self.clock_reads, peers), self.clock_reads[ours]);
        Line::new("clock reads", peers, ours, bar)
    }

    fn pick(costs: &BTreeMap<&str, f64>, peers: &[(&'static str, &str)]) -> Vec<Part> {
        peers.iter().map(|(name, case)| part(name, costs[case])).collect()
    }

    /// A call is its operation, the engine, the clock, and what the runner adds. The parts were each
    /// measured in a loop of their own, which is taken off here.
    fn split(&self, call: &str, bare: &str, engine: &str) -> Vec<Part> {
        let in_loop = |case| self.of(case) - self.of("bare-sync");
        let (bare, engine) = (self.of(bare), in_loop(engine));
        let clock = in_loop("clock") * self.clock_reads[call];
        let runner = self.of(call) - bare - engine - clock;
        vec![
            part("bare call", bare),
            part("engine", engine),
            part("clock", clock),
            part("runner", runner),
        ]
    }
}

fn part(name: &'static str, value: f64) -> Part {
    Part { name, value }
}
