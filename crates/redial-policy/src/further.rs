//! A reader stops at the first value of a config that it cannot use, but a person who corrects a file wants to see all of
//! them. So the values with problems are cut out of a copy of the documents, and the copy is read again, until nothing new
//! is found.

use std::collections::{BTreeSet, HashSet};

use crate::inputs::{Document, Reading};
use crate::source::{Place, Problem, SourceId, Span};
use crate::tree::{Entry, Node, Table, Value};

/// The most times that the copy is read, and about how many bytes of text in all.
const MOST_ROUNDS: usize = 32;
const MOST_BYTES: usize = 32_000_000;

/// With more problems than this, no more are looked for.
const MOST_PROBLEMS: usize = 1_000;

/// Adds the problems and findings that the first problem of each config has hidden.
pub(crate) fn add(
    documents: &[Document],
    read: impl Fn(&[Document], &mut Reading),
    reading: &mut Reading,
) {
    let mut wanted: BTreeSet<Place> = reading.problems.iter().filter_map(place).collect();
    if wanted.is_empty() || wanted.len() + reading.findings.len() > MOST_PROBLEMS {
        return;
    }
    let bytes: usize = documents.iter().map(|it| it.node.span.range().len().max(1)).sum();
    let rounds = (MOST_BYTES / bytes.max(1)).clamp(1, MOST_ROUNDS);
    let mut cut = Cut { documents: documents.to_vec(), gone: Vec::new(), names: HashSet::new() };
    let mut known: HashSet<(SourceId, Option<Span>, String)> = HashSet::new();
    known.extend(reading.problems.iter().map(identity));
    for _ in 0..rounds {
        if !cut.out(&wanted) {
            break;
        }
        let mut again = Reading::default();
        read(&cut.documents, &mut again);
        wanted = again.problems.iter().filter_map(place).collect();
        for found in again.problems {
            let is_own = place(&found).is_some_and(|place| !cut.caused(place));
            let is_own = is_own && !cut.has_named(&found.1.message);
            if is_own && known.insert(identity(&found)) {
                reading.problems.push(found);
            }
        }
        let is_new = |finding: &_| !reading.findings.contains(finding);
        let findings: Vec<_> = again
            .findings
            .into_iter()
            .filter(|finding| is_new(finding) && !cut.caused(finding.place))
            .collect();
        reading.findings.extend(findings);
    }
    reading.problems.sort_by_key(|(source, problem)| (*source, problem.span));
}

fn place((source, problem): &(SourceId, Problem)) -> Option<Place> {
    problem.span.map(|span| Place { source: *source, span })
}

fn identity((source, problem): &(SourceId, Problem)) -> (SourceId, Option<Span>, String) {
    (*source, problem.span, problem.message.clone())
}

/// Documents without the parts that have been cut out.
struct Cut {
    documents: Vec<Document>,
    gone: Vec<Place>,
    /// The names on the paths to them.
    names: HashSet<String>,
}

impl Cut {
    /// Cuts out the values at these places, and returns whether there were any.
    fn out(&mut self, wanted: &BTreeSet<Place>) -> bool {
        let before = self.gone.len();
        let Self { documents, gone, names } = self;
        for document in documents {
            let source = document.source;
            let path = Vec::new();
            let mut knife = Knife { source, wanted, path, gone: &mut *gone, names: &mut *names };
            knife.inside(&mut document.node);
        }
        self.gone.len() > before
    }

    /// Whether a message quotes the name of something that has been cut out, in full or in part: others may refer to it.
    fn has_named(&self, message: &str) -> bool {
        message.split('`').skip(1).step_by(2).any(|quoted| self.names.contains(quoted))
    }

    /// Whether a problem at this place may be there only because of a cut: it is about something that contained it.
    fn caused(&self, place: Place) -> bool {
        let contains = |gone: &Place| {
            gone.source == place.source
                && place.span.start <= gone.span.start
                && gone.span.end <= place.span.end
        };
        self.gone.iter().any(contains)
    }
}

struct Knife<'a> {
    source: SourceId,
    wanted: &'a BTreeSet<Place>,
    /// The names of the entries that contain this one.
    path: Vec<String>,
    gone: &'a mut Vec<Place>,
    names: &'a mut HashSet<String>,
}

impl Knife<'_> {
    /// A table is as deep as its text, which is bounded.
    fn inside(&mut self, node: &mut Node) {
        match &mut node.value {
            Value::Table(table) => self.entries(table),
            Value::List(list) => list.iter_mut().for_each(|item| {
                if self.is_wanted(item) {
                    // It keeps its place, so that the paths of the others do not change.
                    self.gone(item.span);
                    item.value = Value::Null;
                } else {
                    self.inside(item);
                }
            }),
            _ => {}
        }
    }

    fn entries(&mut self, table: &mut Table) {
        let mut rest = Vec::with_capacity(table.entries().len());
        for mut entry in std::mem::take(table).into_entries() {
            if !self.is_wanted(&entry.node) && !self.has(entry.key_span) {
                self.path.push(entry.key.clone());
                self.inside(&mut entry.node);
                self.path.pop();
                rest.push(entry);
                continue;
            }
            self.name_path(&entry);
            self.gone(entry.key_span);
            self.gone(entry.node.span);
            // Other parts may refer to the name of a table, so it is removed only if it is still a problem when it is
            // empty.
            if matches!(&entry.node.value, Value::Table(inner) if !inner.entries().is_empty()) {
                let node = Node { value: Value::Table(Table::default()), ..entry.node };
                rest.push(Entry { node, ..entry });
            }
        }
        *table = Table::from_unique(rest);
    }

    /// Others can refer to what contains a value, but only to a table itself. A field of the same name elsewhere is another one.
    fn name_path(&mut self, entry: &Entry) {
        let is_table = entry.node.table().is_some();
        let own = entry.key.rsplit_once('.').map_or("", |(outer, _)| outer);
        let own = if is_table { entry.key.as_str() } else { own };
        let all = self.path.iter().map(String::as_str).chain([own]).flat_map(|key| key.split('.'));
        self.names.extend(all.map(str::to_owned));
    }

    fn gone(&mut self, span: Span) {
        self.gone.push(Place { source: self.source, span });
    }

    fn has(&self, span: Span) -> bool {
        self.wanted.contains(&Place { source: self.source, span })
    }

    /// Whether a node has a problem. Of a text it may be one word.
    fn is_wanted(&self, node: &Node) -> bool {
        if self.has(node.span) {
            return true;
        }
        let Value::Text(_) = node.value else { return false };
        let at = |offset| Place { source: self.source, span: Span { start: offset, end: offset } };
        let mut inside = self.wanted.range(at(node.span.start)..at(node.span.end));
        inside.any(|place| place.span.end <= node.span.end)
    }
}
