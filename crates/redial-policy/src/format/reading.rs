use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::Found;
use crate::file::{File, MOST_POLICIES};
use crate::finding::Finding;
use crate::source::{MOST_PROBLEMS, Place, Problem, Problems, SourceId};

/// The result of reading texts.
#[derive(Debug, Default)]
pub struct ConfigReading {
    /// The retry configs.
    pub found: Vec<Found>,
    /// What the readers found, such as misspelt names and misleading fields.
    pub findings: Vec<Finding>,
    /// What could not be read, by text.
    pub problems: Vec<(SourceId, Problem)>,
    /// Our own policy files, with the number of the document.
    pub(crate) files: Vec<(usize, File)>,
    /// The hashes of each text's problems, because a value that several configs share is read several times.
    known: BTreeMap<SourceId, HashSet<u64>>,
}

impl ConfigReading {
    /// Adds the problems of a config in this text.
    pub(crate) fn add(&mut self, source: SourceId, problems: Problems) {
        for problem in problems.into_list() {
            self.problem(source, problem);
        }
    }

    /// Adds a problem of this text. The same one is added once, and only the first ones are kept.
    pub(crate) fn problem(&mut self, source: SourceId, problem: Problem) {
        let known = self.known.entry(source).or_default();
        let mut hasher = DefaultHasher::new();
        (problem.span, &problem.message).hash(&mut hasher);
        if known.insert(hasher.finish()) && known.len() <= MOST_PROBLEMS {
            self.problems.push((source, problem));
        }
    }

    /// Limits what is kept of each text: a text of 16 MB can contain 300,000 configs, and a report on all of them would
    /// take a gigabyte.
    pub(crate) fn bound(&mut self) {
        let (mut counts, mut ends) = (HashMap::new(), HashMap::new());
        self.found.retain(|found| {
            let place = found.places.whole();
            let count: &mut usize = counts.entry(place.source).or_default();
            *count += found.routes.len().max(1);
            let fits = *count <= MOST_POLICIES;
            if !fits {
                ends.entry(place.source).or_insert(place.span);
            }
            fits
        });
        let is_read = |place: Place| ends.get(&place.source).is_none_or(|end| place.span < *end);
        self.findings.retain(|finding| is_read(finding.place));
        self.problems.sort_by_key(|(source, problem)| (*source, problem.span));
        for (source, known) in std::mem::take(&mut self.known) {
            if let Some(more @ 1..) = known.len().checked_sub(MOST_PROBLEMS) {
                self.problems.push((source, Problem::whole(format!("{more} more problems"))));
            }
        }
        for (source, end) in ends {
            let message = format!("more than {MOST_POLICIES} retry configs or routes");
            let problem = Problem::at(end, message).help("split the file; the rest is not read");
            self.problems.push((source, problem));
        }
    }
}
