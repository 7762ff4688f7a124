//! The message about programs that are missing.

use xtask::cargo::find_program;
use xtask::setup::{TOOLS, explain};

#[test]
fn a_program_is_found() {
    let shell = find_program("sh").expect("every system that runs this has a shell");
    assert!(shell.ends_with("sh") && shell.is_file(), "{}", shell.display());
    assert_eq!(find_program("no-program-has-this-name"), None);
}

#[test]
fn each_missing_tool_is_explained() {
    let text = explain("no network", &TOOLS.iter().collect::<Vec<_>>());
    assert!(text.starts_with("cannot install missing programs (no network); "), "{text}");
    for tool in TOOLS {
        let line = format!(
            "\n  {}: {}; on Debian `apt-get install {}`",
            tool.program, tool.why, tool.package
        );
        assert!(text.contains(&line), "{text}");
    }
}
