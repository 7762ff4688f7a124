use super::{Border, Format, Written};
use crate::file::{File, Route};
use crate::found::Found;
use crate::pile::{Document, Language, Reading};
use crate::source::Problem;

pub(super) const BORDER: Border = Border { recognises: File::recognises, read, write };

fn read(documents: &[Document], reading: &mut Reading) {
    for document in documents.iter().filter(|document| document.language == Language::Toml) {
        match File::of(&document.node, document.source) {
            Ok((file, places)) => {
                for (named, places) in file.policies.iter().zip(places) {
                    let takes = |route: &&Route| route.policy == named.name;
                    reading.found.push(Found {
                        minds_safety: true,
                        name: named.name.clone(),
                        format: Format::Redial,
                        policy: named.policy.clone(),
                        places,
                        routes: file.routes.iter().filter(takes).cloned().collect(),
                        setting: named.setting.within(&file.setting),
                        notes: Vec::new(),
                    });
                }
            }
            Err(problem) => reading.problems.push((document.source, problem)),
        }
    }
}

fn write(file: &File) -> Result<Written, Problem> {
    if file.policies.is_empty() {
        return Err(Problem::whole("there is no policy to write"));
    }
    let notes = file.policies.iter().map(|named| (named.name.clone(), Vec::new())).collect();
    Ok(Written { text: file.to_toml(), notes })
}
