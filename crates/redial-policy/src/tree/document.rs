use super::Node;
use crate::source::{Place, Problem, SourceId, TextSpan};

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

impl Language {
    /// Parses the documents of a text.
    pub(crate) fn parse(self, text: &str) -> Result<Vec<Node>, Problem> {
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
    pub fn place(&self, span: TextSpan) -> Place {
        Place { source: self.source, span }
    }
}
