//! A retry policy is a part of a route's action, or of a virtual host for all of its routes. At other levels Envoy has no
//! field for it, and rejects the whole config.

use super::super::import::Import;
use super::{field, retry_policy};
use crate::finding::reading::REFUSED_AT_START;
use crate::format::ConfigReading;
use crate::tree::{Cursor, Document};

/// Reports a retry policy at a wrong level, and returns whether there is one.
pub(super) fn check(document: &Document, here: &Cursor<'_>, reading: &mut ConfigReading) -> bool {
    let Some((level, retry)) = wrong(here).zip(retry_policy(here)) else { return false };
    let mut import = Import::new(document, &retry);
    let message = format!("{level} has no retry_policy, so Envoy rejects the config");
    let help =
        "move it into the `route` of the route, or into the virtual host for all of its routes";
    import.finding(&REFUSED_AT_START, &retry, message, help);
    import.report(reading);
    true
}

/// What a table is, if it cannot have a retry policy.
fn wrong(here: &Cursor<'_>) -> Option<&'static str> {
    let has = |names: &[&str]| names.iter().any(|name| field(here, name).is_some());
    if has(&["match"]) && has(&["route", "redirect", "direct_response"]) {
        Some("a route beside its `match`")
    } else if has(&["virtual_hosts"]) {
        Some("a route configuration")
    } else if has(&["load_assignment", "circuit_breakers"]) {
        Some("a cluster")
    } else {
        None
    }
}
