//! Which modules at the top of a crate form circles.

use xtask::tidy::{self, Tree};

use crate::findings::Findings;

/// The findings in a crate with these files and the modules `a`, `b` and `c`.
fn check<const N: usize>(files: [(&str, &str); N]) -> Findings {
    let mut all = vec![("Cargo.toml", "[package]"), ("src/lib.rs", "mod a;\nmod b;\nmod c;\n")];
    all.extend([("src/a.rs", ""), ("src/b.rs", ""), ("src/c.rs", "")]);
    all.extend(files);
    Findings::new(&tidy::check(&Tree::new(all)))
}

/// Whether `a` with this text uses `b`.
#[track_caller]
fn uses_b(a: &str, is_use: bool) {
    let found = check([("src/a.rs", a), ("src/b.rs", "use crate::a;")]);
    if is_use { found.is(&["src/a.rs:"]) } else { found.is_empty() }
}

#[test]
fn a_circle_of_two() {
    check([("src/a.rs", "use crate::b::B;"), ("src/b.rs", "\nuse crate::a::A;")]).is(&[
        "src/a.rs:1: circle: `a` uses `b` in src/a.rs:1, `b` uses `a` in src/b.rs:2; move what \
         both need into a module below them, or make them one module (2 modules in circles: \
         `src/lib.rs circles 2` in xtask/ratchet.txt)",
    ]);
    check([("src/a.rs", "use crate::b::B;"), ("src/b.rs", "use crate::c::C;")]).is_empty();
    check([("src/a.rs", "use crate::a::A;")]).is_empty();
}

#[test]
fn a_circle_of_three() {
    let [a, b] = [("src/a.rs", "use crate::b;"), ("src/b.rs", "use crate::c;")];
    check([a, b]).is_empty();
    check([a, b, ("src/c.rs", "fn c() {\n    crate::a::a();\n}")])
        .is(&["src/a.rs:1: circle: `a` uses `b` in src/a.rs:1, `b` uses `c` in src/b.rs:1, \
         `c` uses `a` in src/c.rs:2; move"]);
}

#[test]
fn every_module_in_a_circle_is_in_a_finding() {
    let [a, b] = [("src/a.rs", "use crate::b;"), ("src/b.rs", "use crate::{a, c};")];
    check([a, b, ("src/c.rs", "use crate::b;")]).is(&[
        "src/a.rs:1: circle: `a` uses `b`",
        "src/c.rs:1: circle: `c` uses `b` in src/c.rs:1, `b` uses `c` in src/b.rs:1; move what \
         both need into a module below them, or make them one module (3 modules",
    ]);
}

#[test]
fn imports() {
    uses_b("use crate::b;", true);
    uses_b("pub(crate) use crate::b as c;", true);
    uses_b("use crate::{c, b::{self, B}};", true);
    uses_b("use crate::{\n    c::{C, D as E},\n    b::*,\n};", true);
    uses_b("use {std::fmt, super::b::B};", true);
    uses_b("use crate::c::{b, c::b::B};", false);
    uses_b("use b::B;", false);
    let nested = "use crate::{\n    c::C,\n    b::B,\n};";
    check([("src/a.rs", nested), ("src/b.rs", "use crate::a;")]).is(&["src/a.rs:3: "]);
}

#[test]
fn paths_outside_of_imports() {
    uses_b("fn f() -> crate::b::B { f() }", true);
    uses_b("fn f() { super::b::f(); }", true);
    uses_b("macro_rules! f { () => { $crate::b::f() } }", true);
    uses_b(
        "impl Iterator for A { fn f() -> impl Sized + use<'_> { crate::b::f::<Self>() } }",
        true,
    );
    uses_b("pub(crate) fn b() { self::b::f(); crate::c::b(); b::f(); }", false);
}

#[test]
fn paths_from_inner_modules() {
    let b = ("src/b.rs", "use crate::a;");
    let inner = |text| check([("src/a.rs", "mod inner;"), ("src/a/inner.rs", text), b]);
    inner("use super::super::b;").is(&["src/a/inner.rs:1: circle: `a` uses `b`"]);
    inner("use super::{super::b::B, c};").is(&["src/a/inner.rs:1: "]);
    inner("use super::b;").is_empty();
    uses_b("mod inner {\n    use super::super::b;\n}", true);
    uses_b("mod inner {\n    use super::b;\n}", false);
    uses_b("mod inner {}\nuse super::b;", true);
    let lib = ("src/lib.rs", "mod a { use crate::b; }\nmod b;\nmod c;");
    check([lib, ("src/a.rs", ""), b]).is(&["src/a.rs:1: no `mod`", "src/lib.rs:1: circle"]);
    uses_b("mod d { use super::e; }\nmod e { use super::d; }", false);
}

#[test]
fn names_that_the_root_exports() {
    let b = ("src/b.rs", "use crate::a;");
    let with = |root: &str, a: &str| {
        let lib = format!("mod a;\nmod b;\nmod c;\n{root}");
        check([("src/lib.rs", &lib), ("src/a.rs", a), b])
    };
    with("pub use b::B;", "use crate::B;").is(&["src/a.rs:1: circle: `a` uses `b`"]);
    with("pub use self::b::{B as D};", "fn f(d: super::D) {}").is(&["src/a.rs:1: "]);
    with("pub use b::B;", "use crate::D;").is_empty();
    with("pub use redial::B;", "use crate::B;").is_empty();
    with("mod d { pub use crate::b::B; }", "use crate::B;").is_empty();
}

#[test]
fn code_for_tests() {
    uses_b("#[cfg(test)]\nmod tests {\n    use crate::b;\n}", false);
    uses_b("#[cfg(test)]\nuse crate::{c, b};", false);
    uses_b("#[cfg(all(test, unix))]\nfn f<A, B>(b: crate::b::B) { crate::b::f() }", false);
    uses_b("#[cfg(test)]\nmod tests {}\nuse crate::b;", true);
    uses_b("#[cfg(any(test, unix))]\nuse crate::b;", true);
    uses_b("#[cfg(not(test))]\nuse crate::b;", true);
    let tests = ("src/a/tests.rs", "use crate::b;");
    check([("src/a.rs", "#[cfg(test)]\nmod tests;"), tests, ("src/b.rs", "use crate::a;")])
        .is_empty();
}

#[test]
fn text_that_is_not_code() {
    uses_b("/// [crate::b]\n// use crate::b;\n/* use /* */ crate::b; */", false);
    uses_b("const A: &str = \"\\\" crate::b::B\";", false);
    uses_b("const A: &str = r#\"\" crate::b::B\"#;", false);
    uses_b("const A: &[u8] = br\"\\\"; use crate::b;", true);
    uses_b("const A: [char; 2] = ['\"', '\\''];\nuse crate::b;\nconst B: char = '\"';", true);
    uses_b("fn f<'a>(a: &'a str) { crate::b::f() }", true);
}

#[test]
fn circles_that_the_ratchet_allows() {
    let files = [("src/a.rs", "use crate::b;"), ("src/b.rs", "use crate::a;")];
    let with = |ratchet| check([files[0], files[1], ("xtask/ratchet.txt", ratchet)]);
    with("src/lib.rs circles 2").is_empty();
    with("src/lib.rs circles 1").is(&["src/a.rs:1: "]);
    with("src/lib.rs circles 3")
        .is(&["xtask/ratchet.txt:1: the entry `src/lib.rs circles 3` is too wide: lower it to 2"]);
    check([("xtask/ratchet.txt", "src/lib.rs circles 2")])
        .is(&["xtask/ratchet.txt:1: the entry `src/lib.rs circles 2` is too wide: remove it"]);
}
