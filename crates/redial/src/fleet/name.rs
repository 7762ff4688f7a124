use std::fmt::Write as _;

use redial_core::fleet::is_name_byte;

/// The ledger name of a destination, with all other characters escaped.
pub(super) fn scoped(fleet: &str, destination: &str) -> String {
    let mut name = format!("{fleet}/");
    for byte in destination.bytes() {
        if is_name_byte(byte) {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name
}
