//! The command `redial`.
fn main() {}
