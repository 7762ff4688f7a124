//! Which versions are in the archive, for programs that look for known faults in them?

use serde_json::{Value, json};

use super::parts::Part;

/// The bill of materials as CycloneDX: the command, and the packages that it is built from. The first part with this name is
/// the command.
#[must_use]
pub fn sbom(command: &str, parts: &[Part]) -> Value {
    let (command, libraries): (Vec<&Part>, Vec<&Part>) =
        parts.iter().partition(|part| part.name == command);
    let uses = parts.iter().map(|part| json!({ "ref": part.url(), "dependsOn": part.uses }));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": command.first().map(|part| component("application", part)) },
        "components": libraries.iter().map(|part| component("library", part)).collect::<Vec<_>>(),
        "dependencies": uses.collect::<Vec<_>>(),
    })
}

fn component(kind: &str, part: &Part) -> Value {
    json!({
        "type": kind,
        "bom-ref": part.url(),
        "name": part.name,
        "version": part.version,
        "purl": part.url(),
        "licenses": [{ "expression": part.licence }],
    })
}
