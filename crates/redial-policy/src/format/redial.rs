use redial_core::DurationText;

use super::system::{Advice, System, Words};
use super::{Format, Written, policies};
use crate::file::{File, Route};
use crate::found::Found;
use crate::inputs::{Document, Language, Reading};
use crate::rules::reading::UNUSED_FLEET;
use crate::source::Problem;
use crate::tree::{Node, Table, Truncated};

pub(super) static SYSTEM: System = System {
    name: "redial",
    title: "a policy file",
    recognises: File::recognises,
    read,
    write,
    language: |_| Some(Language::Toml),
    words: Words::Paths,
    duration: |_, nanos| format!("\"{}\"", DurationText(nanos)),
    counts_retries: false,
    advice: Advice {
        add_jitter: Some("write `backoff.jitter = \"full\"`"),
        full_jitter: Some("write `backoff.jitter = \"full\"` or \"decorrelated\""),
        honour_hints: Some("write `hint.honour.cap = \"60s\"`"),
        add_budget: Some("remove `budget = \"none\"`: retries earn the default budget"),
        ..Advice::NONE
    },
};

fn read(documents: &[Document], reading: &mut Reading) {
    for document in documents.iter().filter(|document| document.language == Language::Toml) {
        match File::of(&document.node, document.source) {
            Ok((file, places)) => {
                unused_fleets(document, &file, reading);
                for (named, places) in file.policies.iter().zip(places) {
                    let is_own = |route: &&Route| route.policy == named.name;
                    reading.found.push(Found {
                        checks_safety: true,
                        name: named.name.clone(),
                        format: Format::Redial,
                        policy: named.policy.clone(),
                        places,
                        routes: file.routes.iter().filter(is_own).cloned().collect(),
                        setting: named.setting.within(&file.setting),
                        notes: Vec::new(),
                    });
                }
            }
            Err(problem) => reading.problems.push((document.source, problem)),
        }
    }
}

fn unused_fleets(document: &Document, file: &File, reading: &mut Reading) {
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
    let notes = policies(file)?.iter().map(|named| (named.name.clone(), Vec::new())).collect();
    Ok(Written { text: file.to_toml(), notes })
}
