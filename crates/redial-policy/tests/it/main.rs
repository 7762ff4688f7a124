//! Texts in, trees and findings out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod envoy_real;
mod mesh;
mod mesh_export;
mod mesh_round_trip;
mod policies;
mod tree;
