use std::path::Path;

use crate::file::fields;
use crate::format::{ConfigReading, Format, misspelt};
use crate::rules::sidecar;
use crate::source::{Problem, SourceId, SourceText};
use crate::suggest::nearest;
use crate::tree::{Document, Language, Node, Truncated, Value, assigned};

/// Texts that are read together: in a mesh, the budget of a route is often in another file than the route.
///
/// Only documents that some format recognises are kept, so the texts can be a whole directory of manifests.
#[derive(Debug, Default)]
pub struct Inputs {
    sources: Vec<SourceText>,
    documents: Vec<Document>,
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
        source: SourceText,
        asked: Option<Format>,
    ) -> Result<usize, (SourceText, Problem)> {
        let (language, text) = (language(&source, asked), source.text());
        let nodes = match language.parse(text).and_then(|nodes| unpack(nodes, text)) {
            Ok(nodes) => nodes,
            Err(problem) => return Err((source, problem)),
        };
        let id = SourceId(u32::try_from(self.sources.len()).unwrap_or(u32::MAX));
        let before = self.documents.len();
        let is_config = |node: &Node| asked.is_some() || Format::any_recognises(node, language);
        let has_config = nodes.iter().any(|(_, node)| is_config(node));
        let is_relevant = |(_, node): &(_, Node)| is_config(node) || Format::any_targets(node);
        let nodes = nodes.into_iter().filter(|_| has_config).filter(is_relevant);
        let document = |(part, node)| Document { source: id, part, language, node };
        self.documents.extend(nodes.map(document));
        let added = self.documents.len() - before;
        if added > 0 {
            self.sources.push(source);
        }
        Ok(added)
    }

    /// Why no config is found in a text: perhaps its only field is misspelt.
    pub fn nothing_found(source: &SourceText) -> Problem {
        const MESSAGE: &str = "no retry config found";
        let formats = Format::ALL.map(Format::name).join(", ");
        let formats = format!("known formats: {formats}; name one with --from");
        let (language, text) = (language(source, None), source.text());
        let nodes = language.parse(text).unwrap_or_default();
        match misspelt::of_any(&nodes, language) {
            Some((entry, meant)) => {
                let message = format!("{MESSAGE}, but a field `{}`", Truncated(&entry.key));
                let help = format!("did you mean `{meant}`? {formats}");
                Problem::at(entry.key_span, message).help(help)
            }
            None => Problem::whole(MESSAGE).help(formats),
        }
    }

    /// The text with this ID.
    pub fn source(&self, id: SourceId) -> &SourceText {
        &self.sources[id.0 as usize]
    }

    /// The documents that some format recognises.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// Reads all configs, or those of one format.
    pub fn read(&self, asked: Option<Format>) -> ConfigReading {
        let mut reading = ConfigReading::default();
        let is_asked = |format: &Format| asked.is_none_or(|asked| asked == *format);
        for format in Format::ALL.into_iter().filter(is_asked) {
            format.read(&self.documents, &mut reading);
        }
        for (number, file) in std::mem::take(&mut reading.files) {
            reading.findings.extend(sidecar::review(&file, &self.documents[number]));
        }
        for document in &self.documents {
            for format in Format::ALL.into_iter().filter(is_asked) {
                misspelt::find(document, format, &mut reading);
            }
        }
        reading.bound();
        reading
    }
}

/// The language of a text, by the extension of its name, or else by its first line.
fn language(source: &SourceText, asked: Option<Format>) -> Language {
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
    let is_ours = |name| fields::is_name(name) || nearest(name, fields::all_names()).is_some();
    if assigned(text).is_some_and(is_ours) {
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
