use alloc::format;
use alloc::string::String;

use crate::invalid::Invalid;

const MOST_NAME_BYTES: usize = 128;
const ALLOWED: &str = "letters, digits and . _ - : /, at most 128 of them";

/// Checks the name of a fleet, or another part of its keys with at least `least` characters. It is part of a key that
/// people type and tools split at whitespace.
///
/// # Errors
///
/// Names `field` if the name has other characters, too few or too many.
pub fn check_name(field: &'static str, name: &str, least: usize) -> Result<(), Invalid> {
    if (least..=MOST_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_name_byte) {
        return Ok(());
    }
    let value: String = name.chars().take(MOST_NAME_BYTES + 1).collect();
    Err(Invalid::new(field, format!("{value:?}"), ALLOWED))
}

/// Whether a name can contain this character.
pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-:/".contains(&byte)
}
