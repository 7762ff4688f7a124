use std::fmt::Write as _;

use redial_core::Invalid;

const LONGEST: usize = 128;
const ALLOWED: &str = "letters, digits and . _ - : /, at most 128 of them";

/// A name is part of a key that people type and tools split at whitespace.
pub(super) fn check(field: &'static str, name: &str, least: usize) -> Result<(), Invalid> {
    if (least..=LONGEST).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(());
    }
    let value: String = name.chars().take(LONGEST + 1).collect();
    Err(Invalid::new(field, format!("{value:?}"), ALLOWED))
}

/// The ledger name of a destination, with all other characters escaped.
pub(super) fn scoped(fleet: &str, destination: &str) -> String {
    let mut name = format!("{fleet}/");
    for byte in destination.bytes() {
        if is_plain(byte) {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-:/".contains(&byte)
}
