//! The cost of a call without retries, which most calls are.

use std::hint::black_box;
use std::time::Duration;

use redial_core::Call;
use tower::retry::budget::{Budget, TpsBudget};

use crate::cases;
use crate::costs::{Costs, SAMPLED, part};
use crate::table::{Bar, Line, Report};
use crate::threads::speed_up;

const NOTES: &[&str] = &[
    "Instructions per call, unless a line says otherwise; bare is the same loop without any retry.",
    "By hand: every step of the state machine, which the short path of the runner skips, and no clock.",
    "(*) Ours gets the time as an argument, TpsBudget reads a clock.",
    "backon and tokio-retry have neither a budget nor a deadline, tower has no deadline.",
];

const BUSY: &str = "two threads ÷ one, but the machine was busy";

/// Cases with clock reads and allocations in the table.
const CALLS: &[&str] = &[
    "tower",
    "backon-async",
    "tokio-retry",
    "redial-async",
    "redial-metered",
    "tower-resilience",
    "redial-breaker",
    "backon-blocking",
    "redial-blocking",
];

pub(crate) fn measure() -> Result<Report, String> {
    let costs = Costs::measure(cases::CALLS, CALLS)?;
    let rows = [
        async_call(&costs),
        metered(&costs),
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
    Ok(Report::new(rows, NOTES))
}

fn async_call(costs: &Costs) -> Vec<Line> {
    const PEERS: [(&str, &str); 3] =
        [("tower+TpsBudget", "tower"), ("backon", "backon-async"), ("tokio-retry", "tokio-retry")];
    let (call, engine) = ("redial-async", "redial-engine");
    let all = [("bare", "bare-async"), PEERS[0], PEERS[1], PEERS[2]];
    let what = "async call, ready at once; budget, deadline";
    vec![
        // The goal is tower's cost, which has a budget and no deadline.
        Line::new(
            what,
            costs.list(&all),
            costs.of(call),
            Bar::Ratchet { figure: 225.0, goal: Some(187.0) },
        ),
        Line::new("the engine, by hand", vec![], costs.of(engine), Bar::ratchet(349.0)),
        Line::new("of it the clock", vec![], costs.of("clock"), Bar::None),
        costs.allocations(&PEERS, call),
        costs.clock_reads(&PEERS, call, SAMPLED),
        Line::new("with a concurrency limit", vec![], costs.of("redial-limited"), Bar::None),
    ]
}

/// Instructions beyond those of an unmetered call.
fn metered(costs: &Costs) -> Vec<Line> {
    let more = |call, metered| costs.beyond(call, metered);
    vec![
        Line::new(
            "a meter: metered async call − async call",
            vec![],
            more("redial-async", "redial-metered"),
            Bar::ratchet(109.0),
        ),
        Line::new(
            "metered blocking call − blocking call",
            vec![],
            more("redial-blocking", "redial-metered-blocking"),
            Bar::ratchet(105.0),
        ),
        costs.allocations(&[], "redial-metered"),
        costs.clock_reads(&[], "redial-metered", Bar::AtMost(2.0)),
    ]
}

fn breaker(costs: &Costs) -> Vec<Line> {
    const PEERS: [(&str, &str); 1] = [("tower-resilience breaker", "tower-resilience")];
    let (call, engine) = ("redial-breaker", "redial-engine-breaker");
    let what = "the same with a breaker";
    vec![
        Line::new(what, costs.list(&PEERS), costs.of(call), Bar::ratchet(286.0)),
        Line::new("the engine, by hand", vec![], costs.of(engine), Bar::None),
        costs.allocations(&PEERS, call),
        costs.clock_reads(&PEERS, call, Bar::None),
    ]
}

fn pending(costs: &Costs) -> Vec<Line> {
    let peers = [("bare", "bare-pending"), ("tokio::time::timeout", "timeout")];
    let (ours, timer) = (costs.of("redial-pending"), costs.of("timeout"));
    let made_of = vec![part("timer", timer), part("everything else", ours - timer)];
    let what = "async call, pending once; budget, deadline";
    vec![Line::new(what, costs.list(&peers), ours, Bar::ratchet(timer + 293.0)).made_of(made_of)]
}

fn blocking_call(costs: &Costs) -> Vec<Line> {
    const PEERS: [(&str, &str); 1] = [("backon", "backon-blocking")];
    let (call, engine) = ("redial-blocking", "redial-engine");
    let all = [("bare", "bare-sync"), PEERS[0]];
    let what = "blocking call; budget, deadline";
    vec![
        Line::new(what, costs.list(&all), costs.of(call), Bar::ratchet(173.0)),
        Line::new("the engine, by hand", vec![], costs.of(engine), Bar::ratchet(349.0)),
        costs.allocations(&PEERS, call),
        costs.clock_reads(&PEERS, call, SAMPLED),
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
