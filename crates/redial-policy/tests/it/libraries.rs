//! Golden reports of every file in `tests/data/FORMAT`. `REDIAL_BLESS=1` updates them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use redial_policy::{Format, Inputs, SourceText};

fn report(name: &str, text: &str, asked: Option<Format>) -> String {
    let source = SourceText::new(name, text.as_bytes().to_vec()).unwrap();
    let mut inputs = Inputs::new();
    let mut out = String::new();
    let place = |source: &SourceText, at: u32| {
        let (line, column) = crate::line_column(source.text(), at);
        format!("{line}:{column}")
    };
    if let Err((source, problem)) = inputs.add(source, asked) {
        let at = problem.span.map_or(String::new(), |span| place(&source, span.start));
        return format!("unreadable {at} {problem}\n");
    }
    let reading = inputs.read(asked);
    for (source, problem) in &reading.problems {
        let at = problem.span.map(|span| place(inputs.source(*source), span.start));
        let _ = writeln!(out, "problem {} {problem}", at.unwrap_or_default());
    }
    for finding in &reading.findings {
        let at = place(inputs.source(finding.place.source), finding.place.span.start);
        let (rule, message, help) = (finding.rule.name, &finding.message, &finding.help);
        let _ = writeln!(out, "finding {at} {rule}: {message}; {help}");
    }
    for found in &reading.found {
        let start = found.places.whole().span.start;
        let _ = writeln!(
            out,
            "\n# {} at {}",
            found.name,
            place(inputs.source(found.places.whole().source), start)
        );
        for route in &found.routes {
            let _ = writeln!(
                out,
                "# route {} {:?}",
                route.path.as_deref().unwrap_or("*"),
                route.methods
            );
        }
        if let Some(queue) = found.setting.queue {
            let _ = writeln!(out, "# queue {queue:?}");
        }
        out.push_str(&toml::to_string(&found.policy).unwrap());
        for note in &found.notes {
            let _ = writeln!(out, "# {} {}: {}", note.kind.name(), note.field, note.text);
        }
    }
    out
}

fn check(format: Format) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format.name());
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_none_or(|ending| ending != "report"));
    files.sort();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let report = report(name, &text, None);
        let golden = file.with_file_name(format!("{name}.report"));
        if std::env::var_os("REDIAL_BLESS").is_some() {
            fs::write(&golden, &report).unwrap();
        }
        if fs::read_to_string(&golden).unwrap_or_default() != report {
            wrong.push(format!("{name}:\n{report}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn documents_of_grpc_are_read() {
    check(Format::Grpc);
}

#[test]
fn documents_of_resilience4j_are_read() {
    check(Format::Resilience4j);
}

#[test]
fn documents_of_aws_are_read() {
    check(Format::Aws);
}

#[test]
fn documents_of_dotnet_are_read() {
    check(Format::DotNet);
}
