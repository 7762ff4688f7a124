//! The words of choices, once for reading and printing.

use super::{AccessLog, HostHeader, MissingKeys};
use crate::source::Problem;
use crate::suggest::did_you_mean;
use crate::tree::{Cursor, Value};

pub(super) const LOG: [(&str, AccessLog); 3] =
    [("text", AccessLog::Text), ("json", AccessLog::Json), ("none", AccessLog::None)];
pub(super) const KEYS: [(&str, MissingKeys); 2] =
    [("leave", MissingKeys::Leave), ("make", MissingKeys::Make)];
pub(super) const HOST: [(&str, HostHeader); 2] =
    [("upstream", HostHeader::Upstream), ("keep", HostHeader::Keep)];

pub(super) fn read<T: Copy>(here: &Cursor<'_>, words: &[(&str, T)]) -> Result<T, Problem> {
    let text = here.node.text();
    if let Some((_, value)) = words.iter().find(|(word, _)| Some(*word) == text) {
        return Ok(*value);
    }
    let names = words.iter().map(|(word, _)| *word);
    let quoted: Vec<String> = names.clone().map(|word| format!("\"{word}\"")).collect();
    let help = text.and_then(|text| did_you_mean(text, names));
    Err(Problem { help, ..here.must_be(quoted.join(" or ")) })
}

/// The word of a value that is not the default.
pub(super) fn print<T: Copy + PartialEq + Default>(value: T, words: &[(&str, T)]) -> Option<Value> {
    let (word, _) = words.iter().find(|(_, known)| *known == value)?;
    (value != T::default()).then(|| Value::from(*word))
}
