//! What does a layer cost a request that needs no retry and finds room? Most requests are such requests.

use crate::cases;
use crate::costs::{Costs, SAMPLED};
use crate::table::{Bar, Line, Report};

const NOTES: &[&str] = &[
    "Instructions per request beyond bare, unless a line says otherwise.",
    "Clients: bare has one clone of the request to keep, and the header with the deadline; peers get that",
    "header from their caller. Servers: bare is the service alone. Every service is called and awaited in",
    "the loop itself, so that all of it can be inlined and moving a larger future counts.",
    "tower has no deadline, tower-resilience neither a deadline nor (here) any listener.",
];

pub(crate) fn measure() -> Result<Report, String> {
    let names: Vec<&str> = cases::REQUESTS.iter().map(|case| case.name).collect();
    let costs = Costs::measure(cases::REQUESTS, &names)?;
    let mut put = client(
        &costs,
        "a request with 1 KiB through the retry layer",
        ["http-bare", "http-redial", "http-tower", "http-resilience"],
        693.0,
    );
    let copied = cases::bytes_copied() as f64;
    put.push(Line::new("of the body, bytes copied", vec![], copied, Bar::AtMost(0.0)));
    let post = client(
        &costs,
        "the same as POST, with content-type JSON",
        ["http-bare-post", "http-redial-post", "http-tower-post", "http-resilience-post"],
        821.0,
    );
    let get = client(
        &costs,
        "the same without a body",
        ["http-bare-get", "http-redial-get", "http-tower-get", "http-resilience-get"],
        672.0,
    );
    let servers = [shed(&costs), deadline(&costs), deadline_pending(&costs)];
    Ok(Report::new([put, post, get].into_iter().chain(servers), NOTES))
}

fn client(costs: &Costs, what: &'static str, cases: [&str; 4], figure: f64) -> Vec<Line> {
    let [bare, ours, tower, resilience] = cases;
    let peers = [("tower+TpsBudget", tower), ("tower-resilience", resilience)];
    let ours_beyond = costs.beyond(bare, ours);
    vec![
        Line::new(what, costs.list_beyond(bare, &peers), ours_beyond, Bar::ratchet(figure)),
        costs.allocations_beyond(bare, &peers, ours, Bar::AtMost(1.0)),
        costs.clock_reads(&peers, ours, SAMPLED),
    ]
}

fn shed(costs: &Costs) -> Vec<Line> {
    let (bare, shed) = ("serve-bare", "serve-shed");
    let peers = [("tower ConcurrencyLimit+LoadShed", "serve-tower")];
    let what = "a request below the limit, through the shed layer";
    let ours = costs.beyond(bare, shed);
    vec![
        Line::new(what, costs.list_beyond(bare, &peers), ours, Bar::ratchet(245.0)),
        costs.allocations_beyond(bare, &peers, shed, Bar::AtMost(0.0)),
        costs.clock_reads(&peers, shed, Bar::None),
    ]
}

fn deadline(costs: &Costs) -> Vec<Line> {
    let (bare, ours) = ("serve-bare-timeout", "serve-deadline");
    let extension = costs.beyond(bare, "serve-deadline-extension");
    let none = costs.beyond("serve-bare", "serve-deadline-none");
    let what = "a request with a timeout, through the deadline layer";
    vec![
        Line::new(what, vec![], costs.beyond(bare, ours), Bar::ratchet(887.0)),
        costs.allocations_beyond(bare, &[], ours, Bar::AtMost(0.0)),
        costs.clock_reads(&[], ours, Bar::AtMost(1.0)),
        Line::new("with the extension", vec![], extension, Bar::None),
        Line::new("without a timeout", vec![], none, Bar::None),
    ]
}

/// tokio's timer is most of the cost, and a handler cannot be cut off without one.
fn deadline_pending(costs: &Costs) -> Vec<Line> {
    let (bare, ours, tokio) =
        ("serve-bare-pending", "serve-deadline-pending", "serve-tokio-pending");
    let peers = [("tokio timeout", tokio)];
    let what = "the same with a handler that is pending once";
    let beyond_tokio = costs.beyond(tokio, ours);
    vec![
        Line::new(what, costs.list_beyond(bare, &peers), costs.beyond(bare, ours), Bar::None),
        Line::new("beyond tokio's timeout", vec![], beyond_tokio, Bar::ratchet(835.0)),
        costs.allocations_beyond(bare, &peers, ours, Bar::AtMost(1.0)),
    ]
}
