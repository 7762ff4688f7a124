//! A payload is untrusted bytes of any size. The page gets its start, as text if it is text.

use serde::Serialize;

/// The start of a payload.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct ShownPayload {
    bytes: usize,
    /// Whether `text` or `hex` is not all of it.
    cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    hex: Option<String>,
}

/// At most this many bytes of a payload.
pub(super) fn shown(payload: &[u8], most: usize) -> ShownPayload {
    let start = &payload[..payload.len().min(most)];
    let bytes = payload.len();
    match readable(start, start.len() < bytes) {
        Some(text) => {
            ShownPayload { bytes, cut: text.len() < bytes, text: Some(text.to_owned()), hex: None }
        }
        None => ShownPayload { bytes, cut: start.len() < bytes, text: None, hex: Some(hex(start)) },
    }
}

/// The text, without the first part of a character that the end has cut.
fn readable(start: &[u8], is_cut: bool) -> Option<&str> {
    match std::str::from_utf8(start) {
        Ok(text) => Some(text),
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a text in hexadecimal, in which white space does not count.
pub(super) fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    if !digits.len().is_multiple_of(2) {
        return Err(format!("payload_hex: {} digits, but two make a byte", digits.len()));
    }
    let value = |c: char| {
        let wrong = || format!("payload_hex: {c:?} is not a hexadecimal digit");
        c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()).ok_or_else(wrong)
    };
    digits.chunks_exact(2).map(|pair| Ok(value(pair[0])? << 4 | value(pair[1])?)).collect()
}
