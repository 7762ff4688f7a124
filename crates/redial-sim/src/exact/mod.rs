//! A discrete-event simulation in which every caller is a call of the engine.
//!
//! ```text
//!            ┌─ Begin ──┐                      ┌──────────── Answer ─────────────┐
//! arrivals ──┤          ├─> attempt ─> Arrive ─┼─> Wait ─> Serve ─> Finish ──────┼─> Reply ─> settle
//!            └─ Wake  <─┼──────────────────────┴─> Silence ─> Expire ────────────┘      │
//!                 ^     └─ over <───────────────────────────────────────────────────────┤
//!                 └──────────────────────────── waits <─────────────────────────────────┘
//! ```
//!
//! `World` takes events from the wheel, and makes the calls of the engine. Its parties have their own state: `callers`
//! know when they begin and what they wait for, `services` which requests wait and which are served, `inner` the calls
//! that services make, `network` which attempts are under way, `outside` which instances restart or are switched off, and
//! `record` what is counted.
//!
//! What takes no time is not an event: an attempt that is answered at once over a network without latency is
//! settled where it was sent. A waiting caller takes 16 bytes and an entry in the wheel; only attempts in flight
//! are kept in full.

mod at_caller;
mod at_service;
mod callers;
mod edge;
mod event;
mod executions;
mod flight;
mod healthy_shards;
mod inner;
mod network;
mod outside;
mod own_calls;
mod parked;
mod processes;
mod race;
mod record;
mod servers;
mod service_state;
mod services;
mod sharing;
mod slab;
mod totals;
mod world;

use crate::measure::Run;
use crate::watch::Watch;
use crate::{Scenario, Subject};

use edge::Edge;
use world::World;

/// Runs a scenario once. The same seed gives the same run. If `watch` is stopped, the run covers what has happened
/// by then.
pub fn run(scenario: &Scenario, subject: &Subject, seed: u64, watch: &Watch) -> Run {
    let edges = Edge::all(scenario, subject, seed);
    World::new(scenario, edges, seed).run(&subject.name, watch)
}
