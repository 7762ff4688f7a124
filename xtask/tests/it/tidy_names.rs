//! What names and sentinels are findings.

use xtask::tidy::{self, Tree};

use crate::findings::Findings;

fn check<const N: usize>(files: [(&str, &str); N]) -> Findings {
    let manifests = ["Cargo.toml", "crates/a/Cargo.toml", "crates/b/Cargo.toml"];
    let manifests = manifests.map(|path| (path, "[package]"));
    let tree = Tree::new(files.into_iter().chain(manifests));
    Findings::new(&tidy::check(&tree))
}

const RATCHET: &str = "xtask/ratchet.txt";

#[test]
fn a_constant_says_what_is_bounded() {
    let vague = "src/lib.rs:1: a constant whose name does not say what is bounded";
    for line in
        ["const MOST: usize = 1;", "    pub(crate) const TICK: u64 = 1;", "static MAX: u8 = 1;"]
    {
        check([("src/lib.rs", line)]).is(&[vague]);
    }
    check([("src/lib.rs", "const MOST_ROWS: u8 = u8::MAX;\nfn f<const MAX: u8>() {}")]).is_empty();
    check([("src/lib.rs", "    pub const MAX: Self = Self(u64::MAX);")]).is_empty();
    check([("src/lib.rs", "const MOST: u8 = 1;"), (RATCHET, "src/lib.rs constants 1")]).is_empty();
    check([("src/lib.rs", "const ROWS: u8 = 1;"), (RATCHET, "src/lib.rs constants 1")])
        .is(&["xtask/ratchet.txt:1: the entry `src/lib.rs constants 1` is too wide: remove it"]);
}

#[test]
fn a_public_type_has_its_name_alone() {
    let one = ("crates/a/src/lib.rs", "pub struct Lease {}\n");
    let other = ("crates/b/src/lib.rs", "\npub enum Lease {}\n");
    check([one, other]).is(&[
        "crates/a/src/lib.rs:1: `Lease` is a public type of crates/b/src/lib.rs too: rename one",
        "crates/b/src/lib.rs:2: `Lease` is a public type of crates/a/src/lib.rs too",
    ]);
    check([one, other, (RATCHET, "Lease types 2")]).is_empty();
    check([one, (RATCHET, "Lease types 2")])
        .is(&["xtask/ratchet.txt:1: the entry `Lease types 2` is too wide: remove it"]);
    check([one, ("crates/b/src/lib.rs", "pub(crate) struct Lease;\npub use a::Lease;")]).is_empty();
    check([one, ("crates/b/tests/it.rs", "pub struct Lease;")]).is_empty();
    let (error, also) = ("pub enum Error {}", "pub struct Error;");
    check([("crates/a/src/lib.rs", error), ("crates/b/src/lib.rs", also)]).is_empty();
}

#[test]
fn a_value_has_one_meaning() {
    let found = "src/lib.rs:1: a value with a second meaning: write an `Option` or an enum";
    for line in [
        concat!("    /// The code; 0 for ", "none."),
        concat!("/// The limit. 0 is ", "no limit."),
        concat!("/// Until then. MAX ", "means for ever."),
        "pub const NEVER: u64 = u64::MAX;",
    ] {
        check([("src/lib.rs", line)]).is(&[found]);
    }
    check([("src/lib.rs", concat!("// 0 for ", "none\nconst NEVER: u8 = 1;"))]).is_empty();
    check([("src/lib.rs", "pub const NEVER: u8 = 1;"), (RATCHET, "src/lib.rs sentinels 1")])
        .is_empty();
}
