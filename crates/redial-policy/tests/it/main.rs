//! Tests of the whole crate.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod bounds;
mod envoy_real;
mod file;
mod file_errors;
mod flat_texts;

mod grpc_real;
mod hostile;
mod istio;
mod libraries;
mod libraries_round_trip;
mod mesh;
mod mesh_export;
mod mesh_round_trip;
mod peers;
mod policies;
mod problems;
mod published;
mod rubric;
mod rules;
mod rules_pages;
mod schema;
mod sidecars;
mod suppress;
mod tree;
mod upstream_errors;
mod upstreams;
mod words;

/// Line and column of a byte, both from 1.
fn line_column(text: &str, at: u32) -> (usize, usize) {
    let before = &text[..at as usize];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
