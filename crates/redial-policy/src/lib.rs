//! Is this retry config safe? That is hard to see before an outage: every system writes its config in another way, counts
//! differently, and does not show what the rest of the fleet does.
//!
//! A text becomes a tree in which every node knows its place ([`tree`]). [`Inputs`] are read into policies ([`Found`]), whatever
//! their format. [`rules`] review these, and [`mod@format`] converts between our policy [`mod@file`]s and the configs of
//! other systems, and reports what is lost.

pub mod file;
mod finding;
pub mod format;
mod found;
mod further;
mod inputs;
mod position;
mod reviewed;
pub mod rubric;
pub mod rules;
mod source;
mod suggest;
mod suppress;
pub mod tree;

pub use finding::{Finding, Severity};
pub use format::Format;
pub use found::{Found, Note, NoteKind, Places};
pub use inputs::{Document, Inputs, Language, Reading};
pub use position::{Cursor, Position, excerpt};
pub use reviewed::Reviewed;
pub use source::{MOST_BYTES, Place, Problem, Source, SourceId, Span};
pub use suggest::nearest;
pub use suppress::{Suppressed, suppress};

/// The JSON Schema (2020-12) of policy files, for editors.
pub const SCHEMA: &str = include_str!("schema.json");
