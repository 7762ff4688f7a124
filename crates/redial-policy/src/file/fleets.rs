use redial_core::fleet::{Location, check_name};
use serde::Deserialize;

use super::{MOST_POLICIES, Named};
use crate::found::Places;
use crate::source::Problem;
use crate::suggest::did_you_mean;
use crate::tree::de::{Clamped, De};
use crate::tree::{Cursor, Truncated, Value};

/// Reads where the ledgers of fleets are. Every fleet that a policy names has to be here.
pub(super) fn read(
    top: &Cursor<'_>,
    policies: &[Named],
    places: &[Places],
) -> Result<Vec<(String, Location)>, Problem> {
    // In a file that is a single policy, `fleet` is the name of its fleet.
    let fleets = top.get("fleet").filter(|fleets| fleets.node.text().is_none());
    let mut known = Vec::new();
    if let Some(fleets) = fleets {
        if fleets.table()?.entries().len() > MOST_POLICIES {
            return Err(fleets.problem(format_args!("more than {MOST_POLICIES} fleets")));
        }
        for (name, here) in fleets.fields() {
            known.push((name.to_owned(), location(name, &here).map_err(Problem::secret)?));
        }
    }
    for (named, places) in policies.iter().zip(places) {
        let Some(fleet) = named.policy.fleet() else { continue };
        if !known.iter().any(|(name, _)| name == fleet) {
            return Err(undefined(fleet, &known, places));
        }
    }
    Ok(known)
}

fn location(name: &str, here: &Cursor<'_>) -> Result<Location, Problem> {
    check_name("name", name, 1)
        .map_err(|invalid| here.problem(format_args!("a name must be {}", invalid.allowed())))?;
    if let Some(password) = here.get("password").filter(|here| here.node.table().is_none()) {
        return Err(password.problem("must be { file = \"…\" } or { env = \"…\" }"));
    }
    let clamped = Clamped::default();
    let location = Location::deserialize(De::new(here.clone(), &clamped)).map_err(Problem::from)?;
    location.check().map_err(|invalid| {
        let field = here.get(invalid.field()).unwrap_or_else(|| here.clone());
        field.problem(format_args!("must be {}, but is {}", invalid.allowed(), invalid.value()))
    })?;
    Ok(location)
}

fn undefined(fleet: &str, known: &[(String, Location)], places: &Places) -> Problem {
    let help = did_you_mean(fleet, known.iter().map(|(name, _)| name.as_str())).unwrap_or_else(
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
