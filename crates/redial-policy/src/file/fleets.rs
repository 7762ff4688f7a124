use redial_core::fleet::{Location, check_name};

use super::MOST_POLICIES;
use crate::places::Places;
use crate::source::{Problem, Problems};
use crate::suggest::did_you_mean;
use crate::tree::de::{self, Wrong};
use crate::tree::{Cursor, Truncated, Value};

/// Reads where the ledgers of fleets are. Every fleet that a policy names has to be here.
pub(super) fn read<'a>(
    top: &Cursor<'_>,
    named: impl Iterator<Item = (Option<&'a str>, &'a Places)>,
    problems: &Problems,
) -> Vec<(String, Location)> {
    // In a file that is a single policy, `fleet` is the name of its fleet.
    let fleets = top.get("fleet").filter(|fleets| fleets.node.text().is_none());
    let (mut known, mut locations) = (Vec::new(), Vec::new());
    if let Some(fleets) = fleets {
        if problems.ok(fleets.table()).is_some_and(|it| it.entries().len() > MOST_POLICIES) {
            problems.add(fleets.problem(format_args!("more than {MOST_POLICIES} fleets")));
            return Vec::new();
        }
        for (name, here) in fleets.fields() {
            let own = Problems::default();
            let location = location(name, &here, &own);
            problems.extend(own.into_list().into_iter().map(Problem::secret));
            locations.extend(location.map(|location| (name.to_owned(), location)));
            known.push(name);
        }
    }
    for (fleet, places) in named {
        if let Some(fleet) = fleet.filter(|fleet| !known.contains(fleet)) {
            problems.add(undefined(fleet, &known, places));
        }
    }
    locations
}

fn location(name: &str, here: &Cursor<'_>, problems: &Problems) -> Option<Location> {
    problems.ok(check_name("name", name, 1)
        .map_err(|invalid| here.problem(format_args!("a name must be {}", invalid.allowed()))));
    if let Some(password) = here.get("password").filter(|here| here.node.table().is_none()) {
        problems.add(password.problem("must be { file = \"…\" } or { env = \"…\" }"));
        return None;
    }
    de::read(here, &mut here.node.clone(), problems, |location: Location, node| {
        location.check().map(|()| location).map_err(|invalid| {
            let here = here.at_node(node);
            let field = here.get(invalid.field()).unwrap_or(here);
            let (allowed, value) = (invalid.allowed(), invalid.value());
            Wrong::new(&field, format_args!("must be {allowed}, but is {value}"))
        })
    })
}

fn undefined(fleet: &str, known: &[&str], places: &Places) -> Problem {
    let help = did_you_mean(fleet, known.iter().copied()).unwrap_or_else(
        || {
            let key = Value::toml_key(fleet);
            format!(
                "say where its ledger is: [fleet.{key}] with redis = \"redis://…\", beside [policy.NAME]"
            )
        },
    );
    let message = format!("no fleet `{}` in this file", Truncated(fleet));
    Problem::at(places.of("fleet").span, message).help(help)
}
