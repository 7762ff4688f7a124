use std::collections::HashMap;
use std::path::Path;

use crate::file::{MOST_POLICIES, fields};
use crate::finding::Finding;
use crate::format::{Format, misspelt};
use crate::found::Found;
use crate::further;
use crate::source::{Place, Problem, Source, SourceId, Span};
use crate::tree::{Node, Value};

/// The language of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// TOML, for policy files only.
    Toml,
    /// YAML, with any number of documents.
    Yaml,
    /// JSON, possibly with comments.
    Json,
    /// Sections of names and values, or environment variables.
    Ini,
    /// Java's properties.
    Properties,
}

/// A document of a text. A YAML file can have several.
#[derive(Clone, Debug)]
pub struct Document {
    /// The text that contains it.
    pub source: SourceId,
    /// The index of the file inside the text: a `ConfigMap` contains files, which do not belong together.
    pub(crate) part: usize,
    /// The language.
    pub language: Language,
    /// The content.
    pub node: Node,
}

impl Document {
    /// The place of a span of this document.
    pub fn place(&self, span: Span) -> Place {
        Place { source: self.source, span }
    }
}

/// Texts that are read together: in a mesh, the budget of a route is often in another file than the route.
///
/// Only documents that some format recognises are kept, so the texts can be a whole directory of manifests.
#[derive(Debug, Default)]
pub struct Inputs {
    sources: Vec<Source>,
    documents: Vec<Document>,
}

/// The result of reading [`Inputs`].
#[derive(Debug, Default)]
pub struct Reading {
    /// The retry configs.
    pub found: Vec<Found>,
    /// What the readers found, such as misspelt names and misleading fields.
    pub findings: Vec<Finding>,
    /// What could not be read, by text.
    pub problems: Vec<(SourceId, Problem)>,
}

impl Inputs {
    /// No texts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text, and returns the number of its documents that are about retries. With `asked`, all documents are taken
    /// as that format.
    ///
    /// # Errors
    ///
    /// The text cannot be parsed.
    pub fn add(
        &mut self,
        source: Source,
        asked: Option<Format>,
    ) -> Result<usize, (Source, Problem)> {
        let (language, text) = (language(&source, asked), source.text());
        let nodes = match language.parse(text).and_then(|nodes| unpack(nodes, text)) {
            Ok(nodes) => nodes,
            Err(problem) => return Err((source, problem)),
        };
        let id = SourceId(u32::try_from(self.sources.len()).unwrap_or(u32::MAX));
        let before = self.documents.len();
        let is_relevant =
            |(_, node): &(_, Node)| asked.is_some() || Format::any_recognises(node, language);
        let nodes = nodes.into_iter().filter(is_relevant);
        let document = |(part, node)| Document { source: id, part, language, node };
        self.documents.extend(nodes.map(document));
        let added = self.documents.len() - before;
        if added > 0 {
            self.sources.push(source);
        }
        Ok(added)
    }

    /// The text with this ID.
    pub fn source(&self, id: SourceId) -> &Source {
        &self.sources[id.0 as usize]
    }

    /// The documents that some format recognises.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// Reads all configs, or those of one format.
    pub fn read(&self, asked: Option<Format>) -> Reading {
        let mut reading = Reading::default();
        let is_asked = |format: &Format| asked.is_none_or(|asked| asked == *format);
        let read = |documents: &[Document], reading: &mut Reading| {
            for format in Format::ALL.into_iter().filter(is_asked) {
                format.read(documents, reading);
            }
        };
        read(&self.documents, &mut reading);
        further::add(&self.documents, read, &mut reading);
        for document in &self.documents {
            for format in Format::ALL.into_iter().filter(is_asked) {
                misspelt::find(document, format, &mut reading);
            }
        }
        reading.bound();
        reading
    }
}

/// The most problems that are reported of one text.
const MOST_PROBLEMS: usize = 1_000;

impl Reading {
    /// Limits what is kept of each text: a text of 16 MB can contain 300,000 configs, and a report on all of them would
    /// take a gigabyte.
    fn bound(&mut self) {
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
        let mut counts = HashMap::new();
        self.problems.retain(|(source, _)| {
            let count: &mut usize = counts.entry(*source).or_default();
            *count += 1;
            *count <= MOST_PROBLEMS
        });
        for (source, count) in counts.into_iter().filter(|(_, count)| *count > MOST_PROBLEMS) {
            let message = format!("{} more problems", count - MOST_PROBLEMS);
            self.problems.push((source, Problem::whole(message)));
        }
        for (source, end) in ends {
            let message = format!("more than {MOST_POLICIES} retry configs or routes");
            let problem = Problem::at(end, message).help("split the file; the rest is not read");
            self.problems.push((source, problem));
        }
    }
}

/// The language of a text, by the extension of its name, or else by its first line.
fn language(source: &Source, asked: Option<Format>) -> Language {
    let (text, path) = (source.text(), Path::new(source.name()));
    if path.ends_with(".aws/config") || path.ends_with(".env") {
        return Language::Ini;
    }
    match path.extension().and_then(|ending| ending.to_str()) {
        _ if asked == Some(Format::Redial) => Language::Toml,
        Some("toml") => Language::Toml,
        Some("yaml" | "yml") => Language::Yaml,
        Some("json" | "jsonc") => Language::Json,
        Some("properties") => Language::Properties,
        Some("ini" | "env") => Language::Ini,
        _ => asked.and_then(|format| format.language(text)).unwrap_or_else(|| guess(text)),
    }
}

fn guess(text: &str) -> Language {
    if text.trim_start().starts_with('{') {
        return Language::Json;
    }
    if assigned(text).is_some_and(fields::is_name) {
        return Language::Toml;
    }
    match header(text) {
        None => Language::Yaml,
        Some("default") => Language::Ini,
        Some(section) if section.starts_with("profile ") => Language::Ini,
        Some(_) => Language::Toml,
    }
}

/// The section that a text starts with, in TOML or INI.
fn header(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.find(|line| !line.starts_with(['#', ';']))?;
    let section = first.strip_prefix('[')?.split(']').next()?.trim_start_matches('[');
    let is_name = section.starts_with(char::is_alphabetic) && !section.contains(',');
    (is_name && first.contains(']')).then_some(section)
}

impl Language {
    /// Parses the documents of a text.
    fn parse(self, text: &str) -> Result<Vec<Node>, Problem> {
        let one = |node: Result<Node, Problem>| node.map(|node| vec![node]);
        match self {
            Self::Toml => one(Node::toml(text)),
            Self::Yaml => Node::yaml(text),
            Self::Json => one(Node::json(text)),
            Self::Ini => one(Node::ini(text)),
            Self::Properties => one(Node::properties(text)),
        }
    }
}

/// The name, if the first line other than comments is `name = value`.
pub(crate) fn assigned(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let (name, _) = lines.find(|line| !line.starts_with(['#', '!']))?.split_once('=')?;
    Some(name.trim_end()).filter(|name| !name.contains(':'))
}

/// The documents with those inside them: the objects of a `List` and the files of a `ConfigMap`, each with its
/// [`Document::part`].
fn unpack(documents: Vec<Node>, text: &str) -> Result<Vec<(usize, Node)>, Problem> {
    let (mut all, mut nodes, mut part) = (Vec::with_capacity(documents.len()), 0, 0);
    for document in documents {
        let kind = document.get("kind").and_then(Node::text).unwrap_or_default();
        let is_list = kind.ends_with("List") && document.get("items").is_some();
        let objects = match document.value {
            Value::Table(mut table) if is_list => match table.remove("items").map(|all| all.node) {
                Some(Node { value: Value::List(list), .. }) => list,
                _ => Vec::new(),
            },
            value => vec![Node { value, ..document }],
        };
        for object in objects {
            let inside = object.embedded(text, &mut nodes)?;
            all.push((0, object));
            for file in inside {
                part += 1;
                all.extend(file.into_iter().map(|node| (part, node)));
            }
        }
    }
    Ok(all)
}
