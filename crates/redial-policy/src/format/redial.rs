use redial_core::admit::budget::{Budget, TokenBudget};
use redial_core::schedule::{HintRule, Jitter};

use super::system::{Advice, System, Words};
use super::{Format, Written, policies};
use crate::file::{File, MissingKeys, Route, Target, Upstream};
use crate::finding::reading::UNUSED_FLEET;
use crate::format::{ConfigReading, Found};
use crate::places::Places;
use crate::source::Problem;
use crate::tree::{Document, Language, Node, Table, Truncated};

pub(super) static SYSTEM: System = System {
    name: "redial",
    title: "a policy file",
    recognises: File::recognises,
    read,
    write: Some(write),
    language: |_| Some(Language::Toml),
    words: Words::Paths,
    // Its reader refuses unknown fields.
    names: &[],
    is_own: |_| false,
    duration: |_, span| format!("\"{span}\""),
    counts_retries: false,
    advice: Advice {
        add_jitter: Some("write `backoff.jitter = \"full\"`"),
        full_jitter: Some("write `backoff.jitter = \"full\"` or \"decorrelated\""),
        only: "retry only failures before processing: connect, refused, throttled",
        honour_hints: Some("write `hint.honour.cap = \"60s\"`"),
        with_jitter: |backoff| Some(backoff.jitter(Jitter::Full)),
        with_full_jitter: |backoff| Some(backoff.jitter(Jitter::Full)),
        honoured: || Some(HintRule::default()),
        added_budget: || Some(Budget::Tokens(TokenBudget::earned())),
        add_budget: Some("remove `budget = \"none\"`: retries earn the default budget"),
        ..Advice::NONE
    },
};

fn read(documents: &[Document], reading: &mut ConfigReading) {
    let is_toml = |(_, document): &(usize, &Document)| document.language == Language::Toml;
    for (number, document) in documents.iter().enumerate().filter(is_toml) {
        match File::of(&document.node, document.source) {
            Ok((file, places)) => {
                unused_fleets(document, &file, reading);
                for (named, places) in file.policies.iter().zip(places) {
                    let is_own = |route: &&Route| route.policy == named.name;
                    let routes = file.routes.iter().filter(is_own);
                    reading.found.push(Found {
                        checks_safety: true,
                        knows_failures: true,
                        name: named.name.clone(),
                        format: Format::Redial,
                        policy: named.policy.clone(),
                        places,
                        routes: without_upstreams(&file, routes.cloned().collect()),
                        setting: named.setting.within(&file.setting),
                        notes: Vec::new(),
                    });
                }
                reading.found.extend(standard_upstreams(document, &file));
                reading.files.push((number, file));
            }
            Err(problems) => reading.add(document.source, problems),
        }
    }
}

/// The upstreams without a policy, which have the preset `standard`.
fn standard_upstreams(document: &Document, file: &File) -> Vec<Found> {
    let written = document.node.get("upstream").and_then(Node::table);
    let written = written.map_or(&[][..], Table::entries).iter().zip(&file.upstreams);
    let standard = written.filter(|(_, upstream)| upstream.policy.is_none());
    let found = standard.map(|(entry, upstream)| {
        let name = upstream.name.clone();
        let route = Route { upstream: Some(name.clone()), ..Route::default() };
        Found {
            checks_safety: true,
            knows_failures: true,
            name,
            format: Format::Redial,
            policy: file.policy_of(upstream),
            places: Places::new(document.place(entry.key_span)),
            routes: without_upstreams(file, vec![route]),
            setting: file.setting.clone(),
            notes: Vec::new(),
        }
    });
    found.collect()
}

/// Routes with the host of their upstream in its place. If it has several, they match every host.
fn without_upstreams(file: &File, mut routes: Vec<Route>) -> Vec<Route> {
    for route in &mut routes {
        let Some(name) = route.upstream.take() else { continue };
        let upstream = file.upstreams.iter().find(|upstream| upstream.name == name);
        let Some(Upstream { to, keys, .. }) = upstream else { continue };
        route.key |= *keys == MissingKeys::Make;
        let mut hosts: Vec<Option<&str>> = to.iter().map(Target::host).collect();
        hosts.dedup();
        if let ([Some(only)], None) = (&hosts[..], &route.host) {
            route.host = Some((*only).to_owned());
        }
    }
    routes
}

fn unused_fleets(document: &Document, file: &File, reading: &mut ConfigReading) {
    let is_used = |name: &str| file.policies.iter().any(|one| one.policy.fleet() == Some(name));
    let fleets = document.node.get("fleet").and_then(Node::table).map_or(&[][..], Table::entries);
    for entry in fleets.iter().filter(|entry| !is_used(&entry.key)) {
        let place = document.place(entry.key_span);
        let message = format!("no policy names the fleet `{}`", Truncated(&entry.key));
        let help = format!("write `fleet = \"{}\"` in the policy that shares it", entry.key);
        reading.findings.push(UNUSED_FLEET.finding(place, place, message, help));
    }
}

fn write(file: &File) -> Result<Written, Problem> {
    let policies = if file.upstreams.is_empty() { policies(file)? } else { &file.policies };
    let notes = policies.iter().map(|named| (named.name.clone(), Vec::new())).collect();
    Ok(Written { text: file.to_toml(), notes })
}
