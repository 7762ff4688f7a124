//! The output of a command says more about its failure than its exit code: that a lock is held, or how long to wait.
//! Output is scanned line by line as it passes, and at most one line is kept.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use redial::http::hints;
use redial_core::Span;
use redial_core::schedule::Hint;
use regex_lite::Regex;

use super::known;
use crate::clock;

/// A longer line is scanned in pieces of this length.
const LONGEST_LINE: usize = 64 * 1024;

/// The patterns to look for.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    pub(super) retry: Vec<Regex>,
    pub(super) stop: Vec<Regex>,
    pub(super) hint: Vec<Regex>,
}

impl Patterns {
    pub(super) fn are_none(&self) -> bool {
        self.retry.is_empty() && self.stop.is_empty() && self.hint.is_empty()
    }
}

/// The matches in the output of one attempt, on either stream.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) retry: bool,
    pub(super) stop: bool,
    /// The last match of a hint pattern.
    hinted: Option<Span>,
    /// The status of the last response, as the command printed it.
    pub(super) status: Option<u16>,
    /// The fields of the last response that was printed.
    headers: HeaderMap,
}

impl Found {
    /// The hint of a pattern, or of the fields of a response.
    pub(super) fn hint(&self) -> Option<Hint> {
        self.hinted.map(|after| Hint::AtLeast(after.into())).or_else(|| {
            // Most commands print no response: do not read the clock for them.
            let any = !self.headers.is_empty();
            any.then(|| hints(&self.headers, clock::wall()).hint).flatten()
        })
    }

    fn line(&mut self, line: &[u8], patterns: &Patterns) {
        self.header(line);
        if patterns.are_none() {
            return;
        }
        let text = String::from_utf8_lossy(line);
        let matches = |list: &[Regex]| list.iter().any(|pattern| pattern.is_match(&text));
        self.retry |= matches(&patterns.retry);
        self.stop |= matches(&patterns.stop);
        let hinted = |pattern: &Regex| read_hint(pattern.captures(&text)?.get(1)?.as_str());
        if let Some(after) = patterns.hint.iter().find_map(hinted) {
            self.hinted = Some(after);
        }
    }

    /// Reads a field of a response, as `curl -i` prints it, or after a `<` as `curl -v` does.
    fn header(&mut self, line: &[u8]) {
        let line = line.strip_prefix(b"< ").unwrap_or(line).trim_ascii_end();
        self.status = known::status(line).or(self.status);
        if line.starts_with(b"HTTP/") {
            self.headers.clear();
            return;
        }
        for name in [header::RETRY_AFTER, RETRY_AFTER_MS, header::DATE] {
            let known = name.as_str().as_bytes();
            let Some((field, rest)) = line.split_at_checked(known.len()) else { continue };
            let Some(value) = rest.strip_prefix(b":") else { continue };
            if field.eq_ignore_ascii_case(known)
                && let Ok(value) = HeaderValue::from_bytes(value.trim_ascii())
            {
                self.headers.insert(name, value);
            }
        }
    }
}

const RETRY_AFTER_MS: HeaderName = redial::http::names::RETRY_AFTER_MS;

/// A number of seconds, a duration, or a date.
fn read_hint(text: &str) -> Option<Span> {
    let text = text.trim();
    let short = without_words(text);
    if let Ok(after) = short.parse().or_else(|_| format!("{short}s").parse()) {
        return Some(after);
    }
    let mut headers = HeaderMap::new();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_str(text).ok()?);
    hints(&headers, clock::wall()).hint.map(|hint| hint.after().into())
}

/// `2 minutes` becomes `2m`.
fn without_words(text: &str) -> String {
    const WORDS: [(&str, &str); 6] =
        [("milli", "ms"), ("sec", "s"), ("min", "m"), ("hour", "h"), ("hr", "h"), ("day", "d")];
    let mut short = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(letters);
        let lower = word.to_lowercase();
        let unit = WORDS.iter().find(|(known, _)| lower.starts_with(known));
        short.push_str(unit.map_or(word, |(_, unit)| unit));
        let next = tail.find(char::is_alphabetic).unwrap_or(tail.len());
        let (number, tail) = tail.split_at(next);
        short.extend(number.chars().filter(|c| !c.is_whitespace()));
        rest = tail;
    }
    short
}

/// One stream, cut into lines.
#[derive(Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    pub(super) fn feed(&mut self, bytes: &[u8], patterns: &Patterns, found: &mut Found) {
        for mut piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            while !piece.is_empty() {
                let (fits, rest) = piece.split_at(piece.len().min(LONGEST_LINE - self.begun.len()));
                self.begun.extend_from_slice(fits);
                if fits.ends_with(b"\n") || self.begun.len() == LONGEST_LINE {
                    self.end(patterns, found);
                }
                piece = rest;
            }
        }
    }

    /// Ends the current line.
    pub(super) fn end(&mut self, patterns: &Patterns, found: &mut Found) {
        if !self.begun.is_empty() {
            found.line(self.begun.strip_suffix(b"\n").unwrap_or(&self.begun), patterns);
            self.begun.clear();
        }
    }
}
