//! The findings and problems of a check, for all output formats.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use redial_policy::rules::{Rule, review};
use redial_policy::{
    Finding, Format, Found, Inputs, Place, Position, PositionCursor, Problem, Severity, SourceId,
    SourceText, Suppressed, suppress,
};

use super::SettingArgs;
use super::simulate::Simulated;
use super::walk::{self, Input, Walk};

/// The most bytes of texts that are kept: they and their trees are in memory until all files have been read.
const MOST_KEPT: usize = 256_000_000;

pub(crate) struct Report {
    inputs: Inputs,
    pub(crate) found: Vec<Found>,
    /// The findings of the readers, until the review.
    noticed: Vec<Finding>,
    /// In the order of the files, and of their text.
    pub(super) findings: Vec<Located>,
    pub(crate) problems: Vec<Unreadable>,
    /// The number of files with a retry config.
    pub(super) files: usize,
}

/// A finding and its position.
pub(crate) struct Located {
    pub(super) finding: Finding,
    pub(super) position: Position,
    /// The index in [`Report::found`] of the config that it is about.
    pub(super) about: Option<usize>,
    pub(super) simulated: Option<Simulated>,
    /// The reason for which it is suppressed.
    pub(super) suppressed: Option<String>,
}

/// A file that cannot be read, as a whole or in part.
pub(crate) struct Unreadable {
    source: SourceRef,
    pub(super) problem: Problem,
    /// The position, if it is a part.
    pub(super) position: Option<Position>,
}

enum SourceRef {
    Input(SourceId),
    /// A text that could not be parsed.
    Own(SourceText),
    /// A file without a text.
    Name(String),
}

impl SourceRef {
    fn name<'a>(&'a self, inputs: &'a Inputs) -> &'a str {
        match self {
            Self::Input(id) => inputs.source(*id).name(),
            Self::Own(source) => source.name(),
            Self::Name(name) => name,
        }
    }

    fn text<'a>(&'a self, inputs: &'a Inputs) -> &'a str {
        match self {
            Self::Input(id) => inputs.source(*id).text(),
            Self::Own(source) => source.text(),
            Self::Name(_) => "",
        }
    }
}

/// What the arguments say about all files.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    /// The format of the files that arguments name.
    pub(crate) format: Option<Format>,
    /// Whether a file that an argument names may be without a retry config, as one in a directory may.
    pub(crate) skips_unknown: bool,
}

impl Report {
    /// Reads the files and directories of the arguments.
    pub(crate) fn read(files: &[PathBuf], asked: Asked) -> Self {
        let mut report = Self {
            inputs: Inputs::new(),
            found: Vec::new(),
            noticed: Vec::new(),
            findings: Vec::new(),
            problems: Vec::new(),
            files: 0,
        };
        let (mut kept, mut seen) = (0, HashSet::new());
        for input in Walk::new(files) {
            match input {
                // Arguments may name a directory and a file in it.
                Ok(input) if !seen.insert(walk::name(&input.path)) => {}
                Ok(input) => report.add(&input, asked, &mut kept),
                Err((path, error)) => {
                    let problem = Problem::whole(format!("cannot read it: {error}"));
                    report.unreadable(SourceRef::Name(walk::name(&path)), problem);
                }
            }
            if kept > MOST_KEPT {
                let most = MOST_KEPT / 1_000_000;
                let problem = Problem::whole(format!("more than {most} MB of retry configs"));
                let problem = problem.help("check them in parts");
                report.unreadable(SourceRef::Name("the rest".to_owned()), problem);
                break;
            }
        }
        let reading = report.inputs.read(asked.format);
        report.found = reading.found;
        for (source, problem) in reading.problems {
            report.unreadable(SourceRef::Input(source), problem);
        }
        report.noticed = reading.findings;
        match asked.format {
            // Any file can be read as a format, also one without a retry config.
            Some(_) if asked.skips_unknown => report.files = report.known().len(),
            Some(format) => report.require_format(format, files),
            None => {}
        }
        report.place_problems();
        report
    }

    /// Reviews the configs in this setting, except for these rules.
    pub(super) fn review(&mut self, setting: &SettingArgs, allowed_rules: &[&'static Rule]) {
        self.found.iter_mut().for_each(|found| setting.apply(found));
        let noticed = std::mem::take(&mut self.noticed).into_iter();
        let findings = noticed.chain(review(&self.found)).collect();
        let Suppressed { open, allowed } = suppress(&self.inputs, findings);
        let open = open.into_iter().map(|finding| (finding, None));
        let allowed = allowed.into_iter().map(|(finding, reason)| (finding, Some(reason)));
        let findings =
            open.chain(allowed).filter(|(finding, _)| !allowed_rules.contains(&finding.rule));
        let findings = findings.collect();
        self.place(findings);
    }

    /// Adds a file to the inputs.
    fn add(&mut self, input: &Input, asked: Asked, kept: &mut usize) {
        let name = walk::name(&input.path);
        let bytes = match walk::read(input) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            Err(problem) => return self.unreadable(SourceRef::Name(name), problem),
        };
        let length = bytes.len();
        // A file in a directory need not be a retry config, whatever --from says.
        let format = asked.format.filter(|_| input.is_named);
        let must_be_config = input.is_named && !asked.skips_unknown;
        let matters = |bytes: &[u8]| must_be_config || walk::mentions_retries(bytes);
        if std::str::from_utf8(&bytes).is_err() && !matters(&bytes) {
            return;
        }
        let source = match SourceText::new(name.clone(), bytes) {
            Ok(source) => source,
            Err(problem) => return self.unreadable(SourceRef::Name(name), problem),
        };
        let copy = must_be_config.then(|| source.clone());
        match self.inputs.add(source, format) {
            Ok(0) => {
                if let Some(source) = copy {
                    let problem = Inputs::nothing_found(&source);
                    self.unreadable(SourceRef::Own(source), problem);
                }
            }
            Ok(_) => {
                self.files += 1;
                *kept += length;
            }
            Err((source, problem)) if matters(source.text().as_bytes()) => {
                *kept += length;
                self.unreadable(SourceRef::Own(source), problem);
            }
            Err(_) => {}
        }
    }

    /// Reports files that do not contain the format that was given with --from.
    fn require_format(&mut self, format: Format, files: &[PathBuf]) {
        let mut known = self.known();
        known.extend(
            self.problems.iter().map(|unreadable| unreadable.source.name(&self.inputs).to_owned()),
        );
        let names = files.iter().filter(|path| !path.is_dir()).map(|path| walk::name(path));
        for name in names.filter(|name| !known.contains(name)).collect::<Vec<_>>() {
            let message = format!("no retry config of {} found", format.name());
            self.unreadable(SourceRef::Name(name), Problem::whole(message));
        }
    }

    /// The names of the files with a retry config, before the review.
    fn known(&self) -> HashSet<String> {
        let found = self.found.iter().map(|found| found.places.whole().source);
        let noticed = self.noticed.iter().map(|finding| finding.place.source);
        found.chain(noticed).map(|id| self.inputs.source(id).name().to_owned()).collect()
    }

    fn unreadable(&mut self, source: SourceRef, problem: Problem) {
        self.problems.push(Unreadable { source, problem, position: None });
    }

    /// Finds the positions of the findings.
    fn place(&mut self, mut findings: Vec<(Finding, Option<String>)>) {
        findings.sort_by_key(|(finding, _)| (finding.place, finding.rule.name));
        let about: HashMap<Place, usize> =
            self.found.iter().enumerate().map(|(at, found)| (found.places.whole(), at)).collect();
        let mut cursor = (None, PositionCursor::new(""));
        for (finding, suppressed) in findings {
            let id = finding.place.source;
            if cursor.0 != Some(id) {
                cursor = (Some(id), PositionCursor::new(self.inputs.source(id).text()));
            }
            let position = cursor.1.go(finding.place.span);
            let about = about.get(&finding.policy).copied();
            let located = Located { finding, position, about, simulated: None, suppressed };
            self.findings.push(located);
        }
    }

    fn place_problems(&mut self) {
        let mut cursor = PositionCursor::new("");
        for unreadable in &mut self.problems {
            let text = unreadable.source.text(&self.inputs);
            if !std::ptr::eq(text, cursor.text()) {
                cursor = PositionCursor::new(text);
            }
            unreadable.position = unreadable.problem.span.map(|span| cursor.go(span));
        }
    }

    /// The file of a finding.
    pub(super) fn source(&self, located: &Located) -> &SourceText {
        self.inputs.source(located.finding.place.source)
    }

    /// The name of a file that cannot be read.
    pub(super) fn name<'a>(&'a self, unreadable: &'a Unreadable) -> &'a str {
        unreadable.source.name(&self.inputs)
    }

    /// Its text, as far as it is known.
    pub(super) fn text<'a>(&'a self, unreadable: &'a Unreadable) -> &'a str {
        unreadable.source.text(&self.inputs)
    }

    /// The file of a config, by its index in [`found`](Self::found).
    pub(super) fn place_of(&self, found: usize) -> &SourceText {
        self.inputs.source(self.found[found].places.whole().source)
    }

    /// The findings that are not suppressed.
    pub(super) fn open(&self) -> impl Iterator<Item = &Located> + Clone {
        self.findings.iter().filter(|located| located.suppressed.is_none())
    }

    /// The config that a finding is about.
    pub(super) fn about(&self, located: &Located) -> Option<&Found> {
        located.about.map(|at| &self.found[at])
    }

    pub(super) fn exit_code(&self, deny: Severity) -> u8 {
        let is_denied = self.open().any(|located| located.finding.severity >= deny);
        if self.problems.is_empty() { u8::from(is_denied) } else { 2 }
    }
}
