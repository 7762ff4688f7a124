//! `redial doctor`, and the rules and dashboard in `ops/`.

mod endpoint;
mod envoy;
mod example;
mod fair;
mod impossible;
mod judge;
mod live;
mod ops;
mod page;
mod pages;
mod prometheus;
