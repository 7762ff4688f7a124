//! A reader stops at the first value of a config that it cannot use, but a person who corrects a file wants to see all of
//! them. So the values with problems are cut out of a copy of the documents, and the copy is read again, until nothing new
//! is found.

use std::collections::{BTreeMap, BTreeSet, HashSet};

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
    let wanted: BTreeSet<Place> = reading.problems.iter().filter_map(place).collect();
    if wanted.is_empty() || wanted.len() + reading.findings.len() > MOST_PROBLEMS {
        return;
    }
    let bytes: usize = documents.iter().map(|it| it.node.span.range().len().max(1)).sum();
    let rounds = (MOST_BYTES / bytes.max(1)).clamp(1, MOST_ROUNDS);
    let mut cut = Cut::default();
    let mut known: HashSet<(SourceId, Option<Span>, String)> = HashSet::new();
    known.extend(reading.problems.iter().map(identity));
    cut.want(&reading.problems);
    for _ in 0..rounds {
        let mut again = Reading::default();
        read(&cut.out_of(documents), &mut again);
        let is_done = !cut.want(&again.problems);
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
        if is_done {
            break;
        }
    }
    reading.problems.sort_by_key(|(source, problem)| (*source, problem.span));
}

fn place((source, problem): &(SourceId, Problem)) -> Option<Place> {
    problem.span.map(|span| Place { source: *source, span })
}

fn identity((source, problem): &(SourceId, Problem)) -> (SourceId, Option<Span>, String) {
    (*source, problem.span, problem.message.clone())
}

/// What is cut out of the documents.
#[derive(Default)]
struct Cut {
    /// Where the problems are, and how often each was still there.
    wanted: BTreeMap<Place, usize>,
    /// The names of fields that have to be there, so that another value is put in their place.
    required: HashSet<String>,
    /// Where something was cut out.
    gone: Vec<Place>,
    /// The names on the paths to these places.
    names: HashSet<String>,
}

/// How often a value is replaced, emptied or removed, until it is given up.
const MOST_CUTS: usize = 4;

impl Cut {
    /// Cuts out what these problems are about too, and returns whether anything changes.
    fn want(&mut self, problems: &[(SourceId, Problem)]) -> bool {
        let (places, names) = (self.wanted.len(), self.required.len());
        let mut is_other = false;
        for (source, problem) in problems {
            let Some(span) = problem.span else { continue };
            if let Some((_, missing)) = problem.message.split_once("missing field") {
                let before = self.required.len();
                let missing =
                    missing.split('`').skip(1).step_by(2).filter(|it| self.names.contains(*it));
                self.required.extend(missing.map(str::to_owned).collect::<Vec<_>>());
                if self.required.len() > before {
                    continue;
                }
            }
            let count = self.wanted.entry(Place { source: *source, span }).or_default();
            *count += 1;
            is_other |= *count <= MOST_CUTS;
        }
        is_other || self.wanted.len() > places || self.required.len() > names
    }

    /// The documents without the values at these places.
    fn out_of(&mut self, documents: &[Document]) -> Vec<Document> {
        let mut documents = documents.to_vec();
        let Self { wanted, required, gone, names } = self;
        gone.clear();
        for document in &mut documents {
            let (source, path) = (document.source, Vec::new());
            let (gone, names) = (&mut *gone, &mut *names);
            Knife { source, wanted, required, path, gone, names }.inside(&mut document.node);
        }
        documents
    }

    /// Whether a message quotes the name of something that has been cut out, in full or in part: others may refer to it.
    fn has_named(&self, message: &str) -> bool {
        let is_about_itself = message.contains("unknown field");
        !is_about_itself
            && message.split('`').skip(1).step_by(2).any(|quoted| self.names.contains(quoted))
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
    wanted: &'a BTreeMap<Place, usize>,
    required: &'a HashSet<String>,
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
                if self.count(item) > 0 {
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
            let count = self.count(&entry.node) + self.at(entry.key_span);
            if count == 0 {
                self.path.push(entry.key.clone());
                self.inside(&mut entry.node);
                self.path.pop();
                rest.push(entry);
                continue;
            }
            self.name_path(&entry);
            self.gone(entry.key_span);
            self.gone(entry.node.span);
            if let Some(value) = self.instead(&entry, count) {
                let node = Node { value, ..entry.node };
                rest.push(Entry { node, ..entry });
            }
        }
        *table = Table::from_unique(rest);
    }

    /// What takes the place of a value with a problem, which was still there `count` times; `None` if nothing does.
    fn instead(&self, entry: &Entry, count: usize) -> Option<Value> {
        let (time, number) = (Value::Text("1s".to_owned()), Value::Integer(2));
        match &entry.node.value {
            // Others may refer to the name of a table, so it is emptied first.
            Value::Table(inner) if count == 1 && !inner.entries().is_empty() => {
                Some(Value::Table(Table::default()))
            }
            Value::Table(_) | Value::List(_) => None,
            _ if !self.required.contains(&entry.key) => None,
            Value::Text(_) if count <= 2 => Some(time),
            Value::Text(_) => Some(number),
            _ if count <= 2 => Some(number),
            _ => Some(time),
        }
    }

    /// Others can refer to what contains a value, and to a field that is required. A field of the same name elsewhere is another
    /// one.
    fn name_path(&mut self, entry: &Entry) {
        let all = self.path.iter().chain([&entry.key]).flat_map(|key| key.split('.'));
        self.names.extend(all.map(str::to_owned));
    }

    fn gone(&mut self, span: Span) {
        self.gone.push(Place { source: self.source, span });
    }

    /// How often there was a problem at this span.
    fn at(&self, span: Span) -> usize {
        self.wanted.get(&Place { source: self.source, span }).copied().unwrap_or(0)
    }

    /// The same for a node. Of a text it may be one word.
    fn count(&self, node: &Node) -> usize {
        let whole = self.at(node.span);
        if whole > 0 || !matches!(node.value, Value::Text(_)) {
            return whole;
        }
        let at = |offset| Place { source: self.source, span: Span { start: offset, end: offset } };
        let inside = self.wanted.range(at(node.span.start)..at(node.span.end));
        let inside = inside.filter(|(place, _)| place.span.end <= node.span.end);
        inside.map(|(_, count)| *count).max().unwrap_or(0)
    }
}
