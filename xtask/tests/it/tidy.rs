//! Each rule of `cargo xtask tidy` about files: what is a finding and what is not. A new case is one line.

use xtask::tidy::{self, Tree};

use crate::findings::Findings;

/// The findings in a crate with these files.
fn check<const N: usize>(files: [(&str, &str); N]) -> Findings {
    let tree = Tree::new(files.into_iter().chain([("Cargo.toml", "[package]")]));
    Findings::new(&tidy::check(&tree))
}

// Words that tidy must not find in this file itself.
const LATER: &str = concat!("TO", "DO");
const MEND: &str = concat!("FIX", "ME");
const CROSSES: &str = concat!("X", "XX");
const PERSON: &str = concat!("no", "body");
const SECOND_WORD: &str = concat!("max", "_retries");
const RATCHET: &str = "xtask/ratchet.txt";

/// A function of `lines` lines at `indent` columns.
fn function(name: &str, lines: usize, indent: usize) -> String {
    let space = " ".repeat(indent);
    let body = format!("{space}    call();\n").repeat(lines - 2);
    format!("{space}pub(crate) async fn {name}<T>(x: T) {{\n{body}{space}}}\n")
}

#[test]
fn long_files_are_found() {
    let line = "// x\n";
    check([("src/lib.rs", &line.repeat(400))]).is_empty();
    check([("src/lib.rs", &line.repeat(401))])
        .is(&["src/lib.rs:1: this file has 401 lines, 400 are allowed"]);
    check([("a.md", &line.repeat(401))]).is_empty();
}

#[test]
fn long_documentation_is_found() {
    let half = "- word `two` | 3 four\n".repeat(20_000 / 4);
    check([("docs/a.md", &half), ("docs/b/c.md", &half), ("d.md", &half)]).is_empty();
    check([("docs/a.md", &half), ("docs/b/c.md", &half), ("docs/d.md", "one")])
        .is(&["docs/:1: 40001 words, 40000 are allowed"]);
    check([("ARCHITECTURE.md", &"word ".repeat(3_001))])
        .is(&["ARCHITECTURE.md:1: 3001 words, 3000 are allowed"]);
}

#[test]
fn long_functions_are_found() {
    let long = "src/lib.rs:1: fn f has 71 lines, 70 are allowed";
    check([("src/lib.rs", &function("f", 70, 0))]).is_empty();
    check([("src/lib.rs", &function("f", 71, 0))]).is(&[long]);
    check([("src/lib.rs", &format!("impl X {{\n{}}}\n", function("f", 71, 4)))])
        .is(&["src/lib.rs:2: fn f has 71 lines"]);
    let multi = function("f", 71, 0).replace("(x: T) {", "(\n    x: T,\n)\nwhere\n    T: X,\n{");
    check([("src/lib.rs", &multi)]).is(&["src/lib.rs:1: fn f has 76 lines"]);
    check([(
        "src/lib.rs",
        &function("f", 71, 0).replace("pub(crate) async", "unsafe extern \"C\""),
    )])
    .is(&[long]);
}

#[test]
fn declarations_are_not_function_bodies() {
    let far = format!("{}}}\n", "\n".repeat(80));
    check([("src/lib.rs", &format!("fn f(x: X) -> Y;\n{far}"))]).is_empty();
    check([("src/lib.rs", &format!("fn f<T>(\n    x: T,\n) -> Y\nwhere\n    T: X;\n{far}"))])
        .is_empty();
    check([("src/lib.rs", &format!("fn f() {{}} // why\n{far}"))]).is_empty();
    check([("src/lib.rs", &format!("// fn f() {{\n{far}"))]).is_empty();
    check([("src/lib.rs", &format!("type F = fn() -> X;\n{far}"))]).is_empty();
}

#[test]
fn the_ratchet_allows_and_tightens() {
    let code = format!("{}{}", function("f", 80, 0), function("g", 70, 0));
    check([("src/lib.rs", &code), (RATCHET, "# why\n\nsrc/lib.rs fn f 80\n")]).is_empty();
    check([("src/lib.rs", &code), (RATCHET, "src/lib.rs fn f 79\n")])
        .is(&["src/lib.rs:1: fn f has 80 lines, 79 are allowed"]);
    check([("src/lib.rs", &code), (RATCHET, "src/lib.rs fn f 81\n")])
        .is(&["xtask/ratchet.txt:1: the entry `src/lib.rs fn f 81` is too wide: lower it to 80"]);
    check([("src/lib.rs", &code), (RATCHET, "src/lib.rs fn f 80\nsrc/lib.rs fn g 75\n")])
        .is(&["xtask/ratchet.txt:2: the entry `src/lib.rs fn g 75` is too wide: remove it"]);
    check([("src/lib.rs", ""), (RATCHET, "src/old.rs lines 500\n")])
        .is(&["xtask/ratchet.txt:1: the entry `src/old.rs lines 500` is too wide: remove it"]);
    check([("src/lib.rs", &"\n".repeat(450)), (RATCHET, "src/lib.rs lines 450\n")]).is_empty();
    check([(RATCHET, "src/lib.rs fn 80\n")])
        .is(&["xtask/ratchet.txt:1: `src/lib.rs fn 80`: invalid or duplicate entry"]);
}

#[test]
fn functions_of_one_name_share_an_entry() {
    let code = format!("{}{}", function("f", 75, 0), function("f", 72, 0));
    check([("src/lib.rs", &code), (RATCHET, "src/lib.rs fn f 75\n")]).is_empty();
}

#[test]
fn marks_of_work_left_for_later() {
    check([("src/lib.rs", &format!("\n// {LATER}: x"))])
        .is(&[&format!("src/lib.rs:2: `{LATER}`: do it now")]);
    check([("src/lib.rs", &format!("// {CROSSES}"))]).is(&[&format!("src/lib.rs:1: `{CROSSES}`")]);
    check([("a.md", &format!("{MEND} {CROSSES}"))]).is(&[&format!("a.md:1: `{MEND}`")]);
    check([("b/Cargo.toml", &format!("# {LATER}"))]).is(&["b/Cargo.toml:1: "]);
    check([("a.txt", LATER)]).is_empty();
    check([("src/lib.rs", &format!("const {LATER}S: u8 = 0; // A{MEND}"))]).is_empty();
}

#[test]
fn code_that_is_not_there() {
    check([("src/lib.rs", concat!("x() { to", "do!() }"))]).is(&["src/lib.rs:1: "]);
    check([("src/lib.rs", concat!("x() { unimpl", "emented!() }"))]).is(&["src/lib.rs:1: "]);
    check([("src/lib.rs", concat!("#[", "ignore = \"slow\"]"))]).is(&["src/lib.rs:1: "]);
    check([("src/lib.rs", "#[test]\n// ignored: nothing is to do!")]).is_empty();
}

#[test]
fn words_that_sell() {
    check([("a.md", "x\nA Robust, thing")]).is(&["a.md:2: `robust`: say what it survives"]);
    check([("a.md", "blazingly\n")]).is(&["a.md:1: `blazing`: give the number"]);
    check([("src/lib.rs", "x(); // we simply call")]).is(&["src/lib.rs:1: `simply`: leave it out"]);
    check([("src/lib.rs", "/// Utilizes x")]).is(&["src/lib.rs:1: `utilizes`: write `uses`"]);
    check([("src/lib.rs", "let powerful = \"// robust\"; // \"quoted\"")]).is_empty();
    check([("src/lib.rs", "let c = '\"'; // robust")]).is(&["src/lib.rs:1: `robust`"]);
    check([("a.md", "The utilization of a trobust, simplyfied.")]).is_empty();
    check([("a.txt", "robust")]).is_empty();
}

#[test]
fn second_words_for_attempts() {
    let named = format!(
        "src/lib.rs:1: `{SECOND_WORD}`: write `attempts`, which counts all of them, the first included"
    );
    check([("src/lib.rs", &format!("let {SECOND_WORD} = 3;"))]).is(&[&named]);
    check([("src/lib.rs", concat!("#[serde(rename = \"max", "Retries\")]"))])
        .is(&["src/lib.rs:1: "]);
    check([("a.md", "with max retries of 3")]).is(&["a.md:1: `max retries`: write `attempts`"]);
    check([("src/lib.rs", &format!("let {SECOND_WORD}_seen = retries_max;"))]).is_empty();
}

#[test]
fn persons_in_place_of_things() {
    let found = |path: &str| format!("{path}:1: `{PERSON}`: name it");
    for path in ["src/lib.rs", "a.md", "b/Cargo.toml", "a.sql", "a.lua", "a.yml", "a.py", "a.sh"] {
        check([("src/lib.rs", ""), (path, &format!("x {PERSON} y"))]).is(&[&found(path)]);
    }
    for code in
        [concat!("fn no", "body_waits() {}"), concat!("Watch::No", "body"), concat!("NO", "BODY")]
    {
        check([("src/lib.rs", code)]).is(&[&found("src/lib.rs")]);
    }
    check([("a.md", concat!("Who", "ever and any", "body"))]).is(&[
        concat!("a.md:1: `any", "body`: name it"),
        concat!("a.md:1: `who", "ever`: name it"),
    ]);
    check([("a.txt", PERSON), ("a.md", concat!("no ", "body, busy", "bodys"))]).is_empty();
}

#[test]
fn phrases_of_several_words() {
    check([("a.md", concat!("those", " who wait"))])
        .is(&[concat!("a.md:1: `those", " who`: name them")]);
    check([("src/lib.rs", concat!("fn whose", "_turn_it_is() {}"))])
        .is(&[concat!("src/lib.rs:1: `whose", " turn`: write `the next caller`")]);
    check([("a.toml", concat!("# as Seed", " 003 draws it"))])
        .is(&[concat!("a.toml:1: `seed", " 003`: cite the source")]);
    check([("a.md", concat!("seed", " 0031, seed 3"))]).is_empty();
}

#[test]
fn a_quotation_may_be_allowed() {
    check([("src/lib.rs", &format!("x.{SECOND_WORD} // tidy-allow: Envoy's name"))]).is_empty();
    check([("src/lib.rs", &format!("// tidy-allow: Envoy's name\nx.{SECOND_WORD}"))]).is_empty();
    check([("src/lib.rs", &format!("// tidy-allow: Envoy's name\n\nx.{SECOND_WORD}"))])
        .is(&["src/lib.rs:3: "]);
    check([("src/lib.rs", &format!("x(); // tidy-allow: of this line\nx.{SECOND_WORD}"))])
        .is(&["src/lib.rs:2: "]);
    check([("src/lib.rs", &format!("x.{SECOND_WORD} // tidy-allow:"))]).is(&["src/lib.rs:1: "]);
    check([("a.md", "<!-- tidy-allow: a title -->\nA robust thing")]).is_empty();
    check([("a.md", "<!-- tidy-allow: -->\nA robust thing")]).is(&["a.md:2: "]);
    check([(
        "a.md",
        &format!("<!-- tidy-allow: Envoy -->\n```yaml\na: 1\n{SECOND_WORD}: 3\n```\n"),
    )])
    .is_empty();
    check([("a.md", &format!("```yaml\n{SECOND_WORD}: 3\n```\n"))]).is(&["a.md:2: "]);
    check([("a.sql", &format!("-- tidy-allow: a user of the system\n{PERSON}"))]).is_empty();
    check([("a.sh", &format!("# tidy-allow: a user of the system\n{PERSON}"))]).is_empty();
}

#[test]
fn traces_of_authorship_are_found() {
    check([("a.md", "As an AI, I")]).is(&["a.md:1: `as an ai`: leave it out"]);
    check([("src/lib.rs", "// by an LLM")]).is(&["src/lib.rs:1: `llm`: leave it out"]);
    check([("src/lib.rs", "//! Generated by x")])
        .is(&["src/lib.rs:1: `generated by`: say where it comes from"]);
    check([("a.md", "LLVM made it as an aid; a model of language.")]).is_empty();
}

#[test]
fn hosts_of_registries_are_found() {
    let host = concat!("crates", ".io");
    check([("a.txt", &format!("\nhttps://{host}/x"))])
        .is(&[&format!("a.txt:2: `{host}`: name the package")]);
    check([(".ci/run", concat!("https://DEB.", "debian.org"))]).is(&[".ci/run:1: "]);
    check([("Cargo.lock", &format!("source = \"{host}\""))]).is_empty();
    check([("a.md", "crates, io")]).is_empty();
}

#[test]
fn an_engine_in_the_sidecar() {
    let file = "crates/redial-proxy/src/lib.rs";
    let manifest = ("crates/redial-proxy/Cargo.toml", "");
    let of = |text| check([manifest, (file, text)]);
    of("// backoff\nlet wait = Backoff::new();").is(&[&format!("{file}:2: `backoff` in")]);
    of("attempts += 1;").is(&[&format!("{file}:1: `attempts +=` in the sidecar")]);
    of("interval(SECOND)").is(&[&format!("{file}:1: `interval` in the sidecar")]);
    let checks = ("crates/redial-proxy/src/health_checks.rs", "interval(SECOND)");
    check([manifest, (file, "mod health_checks;"), checks]).is_empty();
}

#[test]
fn links_to_files() {
    let gone = "the link to `gone.md` is broken: `docs/gone.md` does not exist";
    check([("docs/a.md", "x\n[x](gone.md)")]).is(&[&format!("docs/a.md:2: {gone}")]);
    check([("docs/a.md", "[x]: gone.md")]).is(&[&format!("docs/a.md:1: {gone}")]);
    check([("docs/a.md", "<img src=\"gone.md\">")]).is(&[&format!("docs/a.md:1: {gone}")]);
    check([("docs/a.md", "[![x](x.png \"t\")](gone.md)"), ("docs/x.png", "")])
        .is(&[&format!("docs/a.md:1: {gone}")]);
    check([("docs/a.md", "[x](../../b.md)")])
        .is(&["docs/a.md:1: the link to `../../b.md` leaves the repository"]);
    check([
        ("docs/a.md", "[x](../b.md) [y](./a.md) [z](/b.md) [d](../docs/) [w](<../b (c).md>)"),
        ("b.md", ""),
        ("b (c).md", ""),
    ])
    .is_empty();
    check([("a.md", "[x](https://x.y/gone.md) [y](mailto:x@y) `[z](gone.md)` ``[`z](gone.md)``")])
        .is_empty();
    check([("a.md", "````\n[x](gone.md)\n```\n[x](gone.md)\n````\n[^1]: note\n")]).is_empty();
    check([("a.md", "~~~\n~~~\n[x](gone)")]).is(&["a.md:3: the link to `gone` is broken"]);
}

#[test]
fn links_to_headings() {
    let text = "# One `two`, [three](b.md)!\n## A_b - c\n## A_b - c\n<a id=\"here\"></a>\n\
                ```\n# code\n```\n";
    let all = "[](b.md#one-two-three) [](b.md#a_b---c) [](b.md#a_b---c-1) [](b.md#here)";
    check([("a.md", all), ("b.md", text)]).is_empty();
    check([("a.md", "[](b.md#a_b---c-2)"), ("b.md", text)]).is(&[
        "a.md:1: the link to `b.md#a_b---c-2` is broken: `b.md` has no heading `#a_b---c-2`",
    ]);
    check([("a.md", "[](b.md#code)"), ("b.md", text)]).is(&["a.md:1: "]);
    check([("a.md", "# Here\n[x](#here)\n[y](#there)")])
        .is(&["a.md:3: the link to `#there` is broken"]);
    check([("a.md", "[x](src/lib.rs#L3)"), ("src/lib.rs", "")]).is_empty();
}

#[test]
fn files_without_a_mod_declaration() {
    let dead = "src/b.rs:1: no `mod` declares this file, so it is never compiled";
    check([("src/lib.rs", "mod a;"), ("src/a.rs", ""), ("src/b.rs", "")]).is(&[dead]);
    check([("src/lib.rs", "// mod b;"), ("src/b.rs", "")]).is(&[dead]);
    check([
        ("src/lib.rs", "pub(crate) mod a;"),
        ("src/a/mod.rs", "    pub mod b;"),
        ("src/a/b.rs", ""),
    ])
    .is_empty();
    check([
        ("src/lib.rs", "mod a;"),
        ("src/a.rs", "mod b;"),
        ("src/a/b.rs", "mod c;"),
        ("src/a/b/c.rs", ""),
    ])
    .is_empty();
    check([
        ("src/lib.rs", "mod a {\n    mod b;\n}\nmod c;\n"),
        ("src/a/b.rs", ""),
        ("src/c.rs", ""),
    ])
    .is_empty();
    check([("src/lib.rs", "mod a {\n}\nmod b;\n"), ("src/a/b.rs", "")]).is(&["src/a/b.rs:1: "]);
}

#[test]
fn roots_of_targets() {
    check([("build.rs", ""), ("src/main.rs", ""), ("src/bin/x.rs", ""), ("src/bin/y/main.rs", "")])
        .is_empty();
    check([
        ("tests/x.rs", "mod y;"),
        ("tests/y.rs", ""),
        ("tests/it/main.rs", "mod z;"),
        ("tests/it/z.rs", ""),
    ])
    .is_empty();
    check([
        ("examples/x.rs", ""),
        ("benches/x.rs", ""),
        ("f/Cargo.toml", ""),
        ("f/fuzz_targets/x.rs", ""),
    ])
    .is_empty();
    check([("tests/it/z.rs", "")]).is(&["tests/it/z.rs:1: "]);
    check([("a/src/lib.rs", "")]).is(&["a/src/lib.rs:1: "]);
    check([("a/src/lib.rs", ""), ("a/Cargo.toml", "")]).is_empty();
}

#[test]
fn the_built_page() {
    const APP: &str = "crates/redial-web/app/src/main.ts";
    const LOCK: &str = "crates/redial-web/app/package-lock.json";
    const LICENCES: &str = "crates/redial-web/dist/licences.txt";
    const SCRIPT: &str = "crates/redial-web/dist/app.js";
    const SOURCES: &str = "crates/redial-web/dist/SOURCES";
    let lock =
        |version: &str| format!("\"node_modules/a\": {{\n      \"version\": \"{version}\"\n    }}");
    let good = [(APP, "x"), (LOCK, &lock("1.0.0")), (LICENCES, "== a 1.0.0: MIT"), (SCRIPT, "x")];
    let stored = tidy::page::manifest(&Tree::new(good));
    let with = |at: usize, text: &str| {
        let mut files = good;
        files[at].1 = text;
        check([files[0], files[1], files[2], files[3], (SOURCES, &stored)])
    };
    with(0, "x").is_empty();
    with(0, "y").is(&["crates/redial-web/dist/SOURCES:1: the sources in app/ have changed"]);
    with(3, "y").is(&["crates/redial-web/dist/SOURCES:3: dist/app.js is not what was built"]);
    with(1, &lock("2.0.0")).is(&[
        "crates/redial-web/dist/SOURCES:1: ",
        "crates/redial-web/dist/licences.txt:1: a 1.0.0 is not in package-lock.json",
    ]);
    with(2, "== a 1.0.0: Proprietary").is(&[
        "crates/redial-web/dist/SOURCES:5: dist/licences.txt is not what was built",
        "crates/redial-web/dist/licences.txt:1: a has Proprietary, which we do not accept",
    ]);
    with(2, "").is(&[
        "crates/redial-web/dist/SOURCES:5: ",
        "crates/redial-web/dist/licences.txt:1: no licences of the packages in the page",
    ]);
    check([(APP, "x"), (LICENCES, "== a 1.0.0: MIT"), (LOCK, &lock("1.0.0"))]).is(&[
        "crates/redial-web/dist/SOURCES:1: ",
        "crates/redial-web/dist/SOURCES:2: ",
        "crates/redial-web/dist/SOURCES:3: ",
        "crates/redial-web/dist/SOURCES:4: ",
        "crates/redial-web/dist/SOURCES:5: ",
    ]);
}
