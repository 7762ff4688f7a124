//! Is this retry config safe? That is hard to see before an outage: every system writes its config in another way, counts
//! differently, and does not show what the rest of the fleet does.
//!
//! A text becomes a tree in which every node knows its place ([`tree`]). [`Inputs`] are read into policies ([`Found`]), whatever
//! their format. [`rules`] review these, and [`mod@format`] converts between our policy [`mod@file`]s and the configs of
//! other systems, and reports what is lost.

mod inputs;

pub mod tree;

pub mod format;

pub mod file;

pub mod rules;

mod suppress;

pub mod rubric;

mod reviewed;

mod finding;
mod places;
mod position;
mod source;
mod suggest;

pub use finding::{Finding, Severity};
pub use format::{ConfigReading, Format, Found, Note, NoteKind};
pub use inputs::Inputs;
pub use places::Places;
pub use position::{Position, PositionCursor, excerpt};
pub use reviewed::Reviewed;
pub use source::{MOST_BYTES, Place, Problem, SourceId, SourceText, TextSpan};
pub use suggest::nearest;
pub use suppress::{Suppressed, suppress};
pub use tree::{Document, Language};

/// The JSON Schema (2020-12) of policy files, for editors.
pub const SCHEMA: &str = include_str!("schema.json");
