//! Is this retry config safe? Nobody finds out before the outage, because every system writes it down in another way,
//! counts differently, and says nothing about the rest of the fleet.
//!
//! A text, ours or another system's, becomes a tree whose nodes know their places ([`tree`]). A [`Pile`] of such texts is
//! read into policies of ours, with what each is for ([`Found`]); [`rules`] review those; [`mod@format`] translates between
//! our [`mod@file`] and theirs, and keeps account of what is lost.

pub mod file;
mod finding;
pub mod format;
mod found;
mod near;
mod pile;
pub mod rules;
mod source;
mod suppress;
pub mod tree;

pub use finding::{Finding, Severity};
pub use format::Format;
pub use found::{Found, Note, NoteKind, Places};
pub use near::nearest;
pub use pile::{Document, Language, Pile, Reading};
pub use source::{MOST_BYTES, Place, Problem, Source, SourceId, Span};
pub use suppress::{Suppressed, suppress};

/// The JSON Schema (2020-12) of our file, for editors.
pub const SCHEMA: &str = include_str!("schema.json");
