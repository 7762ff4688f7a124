//! The header is a structured field, so a String in quotes, but most clients send it bare. Both forms are the same key
//! here. A key is untrusted input: its length is bounded, and only its hash is stored.

use http::{HeaderMap, HeaderValue};
use sfv::{BareItem, Item, Parser};
use sha2::{Digest, Sha256};

use super::problem::Problem;
use crate::http::names;

/// The longest key, without quotes and escapes.
const MOST_BYTES: usize = 255;

/// The longest header: every character escaped, quotes, and some room for parameters.
const MOST_HEADER_BYTES: usize = 1024;

/// How a key may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    QuotedOrBare,
    Quoted,
}

/// The key of a request; `None` if it has none.
pub(super) fn read(headers: &HeaderMap, form: Form) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(names::IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Problem::Malformed("There is more than one key."));
    }
    if value.len() > MOST_HEADER_BYTES {
        return Err(TOO_LONG);
    }
    let key = match form {
        Form::QuotedOrBare if !value.as_bytes().starts_with(b"\"") => bare(value)?,
        _ => quoted(value)?,
    };
    match key.len() {
        0 => Err(Problem::Malformed("The key is empty.")),
        1..=MOST_BYTES => Ok(Some(key)),
        _ => Err(TOO_LONG),
    }
}

const TOO_LONG: Problem = Problem::Malformed("The key is longer than 255 characters.");

/// Parameters are ignored, as structured fields prescribe for unknown ones.
fn quoted(value: &HeaderValue) -> Result<String, Problem> {
    const WRONG: Problem =
        Problem::Malformed("The key is not a string in quotes, such as \\\"8e03978e\\\".");
    let item: Item = Parser::new(value).parse().map_err(|_| WRONG)?;
    match item.bare_item {
        BareItem::String(key) => Ok(key.into()),
        _ => Err(WRONG),
    }
}

/// A comma is rejected because proxies join two headers to a list.
fn bare(value: &HeaderValue) -> Result<String, Problem> {
    let is_allowed = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b',' | b'"');
    match value.to_str() {
        Ok(key) if key.as_bytes().iter().all(is_allowed) => Ok(key.to_owned()),
        _ => Err(Problem::Malformed(
            "The key has characters other than visible ASCII, or a comma or quote.",
        )),
    }
}

/// The identity of a key in the store. The length prefix separates scope and key unambiguously.
pub(super) fn hash(scope: &[u8], key: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((scope.len() as u64).to_be_bytes());
    hash.update(scope);
    hash.update(key);
    hash.finalize().into()
}
