//! What there is to say, whichever form it takes.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use redial_policy::rules::{Rule, review};
use redial_policy::{
    Finding, Format, Found, Inputs, Place, Problem, Severity, Source, SourceId, Suppressed,
    suppress,
};

use super::SettingArgs;
use super::simulate::Simulated;
use super::spot::{Cursor, Spot};
use super::walk::{self, Input, Walk};

/// The most bytes of texts that are kept. They and their trees are in memory until all of them have been read.
const MOST_KEPT: usize = 256_000_000;

pub(crate) struct Report {
    pile: Inputs,
    pub(crate) found: Vec<Found>,
    /// What the readers noticed, until it is reviewed.
    noticed: Vec<Finding>,
    /// In the order of the files, and of their text.
    pub(super) findings: Vec<Said>,
    pub(crate) problems: Vec<Unread>,
    /// How many files have something to do with retries.
    pub(super) files: usize,
}

/// A finding, and what else is known of it.
pub(crate) struct Said {
    pub(super) finding: Finding,
    pub(super) spot: Spot,
    /// Which of [`Report::found`] it is about.
    pub(super) about: Option<usize>,
    pub(super) simulated: Option<Simulated>,
    /// Why somebody wants it to be left alone.
    pub(super) suppressed: Option<String>,
}

/// A file that cannot be read, or not all of it.
pub(crate) struct Unread {
    whose: Whose,
    pub(super) problem: Problem,
    /// Where, if it is not the whole.
    pub(super) spot: Option<Spot>,
}

enum Whose {
    Pile(SourceId),
    /// Not even a tree could be made of it.
    Own(Source),
    /// There is nothing but a name.
    Name(String),
}

impl Whose {
    fn name<'a>(&'a self, pile: &'a Inputs) -> &'a str {
        match self {
            Self::Pile(id) => pile.source(*id).name(),
            Self::Own(source) => source.name(),
            Self::Name(name) => name,
        }
    }

    fn text<'a>(&'a self, pile: &'a Inputs) -> &'a str {
        match self {
            Self::Pile(id) => pile.source(*id).text(),
            Self::Own(source) => source.text(),
            Self::Name(_) => "",
        }
    }
}

impl Report {
    /// Reads what these arguments mean.
    pub(crate) fn read(files: &[PathBuf], from: Option<Format>) -> Self {
        let mut report = Self {
            pile: Inputs::new(),
            found: Vec::new(),
            noticed: Vec::new(),
            findings: Vec::new(),
            problems: Vec::new(),
            files: 0,
        };
        let (mut kept, mut seen) = (0, HashSet::new());
        for input in Walk::new(files) {
            match input {
                // A directory and a file of it may both be named.
                Ok(input) if !seen.insert(walk::name(&input.path)) => {}
                Ok(input) => report.add(&input, from, &mut kept),
                Err((path, error)) => {
                    let problem = Problem::whole(format!("cannot be read: {error}"));
                    report.unread(Whose::Name(walk::name(&path)), problem);
                }
            }
            if kept > MOST_KEPT {
                let most = MOST_KEPT / 1_000_000;
                let problem = Problem::whole(format!("more than {most} MB of retry configs"));
                let problem = problem.help("check them in parts");
                report.unread(Whose::Name("the rest".to_owned()), problem);
                break;
            }
        }
        let reading = report.pile.read(from);
        report.found = reading.found;
        for (source, problem) in reading.problems {
            report.unread(Whose::Pile(source), problem);
        }
        report.noticed = reading.findings;
        if let Some(from) = from {
            report.nothing_of(from, files);
        }
        report.place_problems();
        report
    }

    /// Reviews it, in this setting and but for these rules.
    pub(super) fn review(&mut self, setting: &SettingArgs, left_out: &[&'static Rule]) {
        self.found.iter_mut().for_each(|found| setting.apply(found));
        let noticed = std::mem::take(&mut self.noticed).into_iter();
        let findings = noticed.chain(review(&self.found)).collect();
        let Suppressed { open, allowed } = suppress(&self.pile, findings);
        let open = open.into_iter().map(|finding| (finding, None));
        let allowed = allowed.into_iter().map(|(finding, reason)| (finding, Some(reason)));
        let findings = open.chain(allowed).filter(|(finding, _)| !left_out.contains(&finding.rule));
        let findings = findings.collect();
        self.place(findings);
    }

    /// Reads a file into the pile.
    fn add(&mut self, input: &Input, asked: Option<Format>, kept: &mut usize) {
        let name = walk::name(&input.path);
        let bytes = match walk::read(input) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            Err(problem) => return self.unread(Whose::Name(name), problem),
        };
        let length = bytes.len();
        // Only what nobody has named may be something else.
        let matters = |bytes: &[u8]| input.by_hand || walk::mentions_retries(bytes);
        if std::str::from_utf8(&bytes).is_err() && !matters(&bytes) {
            return;
        }
        let source = match Source::new(name.clone(), bytes) {
            Ok(source) => source,
            Err(problem) => return self.unread(Whose::Name(name), problem),
        };
        match self.pile.add(source, asked) {
            Ok(0) if input.by_hand => self.unread(Whose::Name(name), unknown()),
            Ok(0) => {}
            Ok(_) => {
                self.files += 1;
                *kept += length;
            }
            Err((source, problem)) if matters(source.text().as_bytes()) => {
                *kept += length;
                self.unread(Whose::Own(source), problem);
            }
            Err(_) => {}
        }
    }

    /// Whoever says what a file is, and is wrong, must not hear that it is fine.
    fn nothing_of(&mut self, format: Format, files: &[PathBuf]) {
        let found = self.found.iter().map(|found| found.places.whole().source);
        let noticed = self.noticed.iter().map(|finding| finding.place.source);
        let mut known: HashSet<String> =
            found.chain(noticed).map(|id| self.pile.source(id).name().to_owned()).collect();
        known.extend(self.problems.iter().map(|unread| unread.whose.name(&self.pile).to_owned()));
        let names = files.iter().filter(|path| !path.is_dir()).map(|path| walk::name(path));
        for name in names.filter(|name| !known.contains(name)).collect::<Vec<_>>() {
            let message =
                format!("nothing here that I know as a retry config of {}", format.name());
            self.unread(Whose::Name(name), Problem::whole(message));
        }
    }

    fn unread(&mut self, whose: Whose, problem: Problem) {
        self.problems.push(Unread { whose, problem, spot: None });
    }

    /// Finds out in which lines the findings are.
    fn place(&mut self, mut findings: Vec<(Finding, Option<String>)>) {
        findings.sort_by_key(|(finding, _)| (finding.place, finding.rule.name));
        let about: HashMap<Place, usize> =
            self.found.iter().enumerate().map(|(at, found)| (found.places.whole(), at)).collect();
        let mut cursor = (None, Cursor::new(""));
        for (finding, suppressed) in findings {
            let id = finding.place.source;
            if cursor.0 != Some(id) {
                cursor = (Some(id), Cursor::new(self.pile.source(id).text()));
            }
            let spot = cursor.1.go(finding.place.span);
            let about = about.get(&finding.policy).copied();
            let said = Said { finding, spot, about, simulated: None, suppressed };
            self.findings.push(said);
        }
    }

    fn place_problems(&mut self) {
        let mut cursor = Cursor::new("");
        for unread in &mut self.problems {
            let text = unread.whose.text(&self.pile);
            if !std::ptr::eq(text, cursor.text()) {
                cursor = Cursor::new(text);
            }
            unread.spot = unread.problem.span.map(|span| cursor.go(span));
        }
    }

    /// The file of a finding: what it is called, and what it says.
    pub(super) fn source(&self, said: &Said) -> &Source {
        self.pile.source(said.finding.place.source)
    }

    /// What a file that cannot be read is called.
    pub(super) fn name<'a>(&'a self, unread: &'a Unread) -> &'a str {
        unread.whose.name(&self.pile)
    }

    /// What it says, as far as that is known.
    pub(super) fn text<'a>(&'a self, unread: &'a Unread) -> &'a str {
        unread.whose.text(&self.pile)
    }

    /// What nobody has suppressed.
    pub(super) fn open(&self) -> impl Iterator<Item = &Said> {
        self.findings.iter().filter(|said| said.suppressed.is_none())
    }

    /// The config that a finding is about.
    pub(super) fn about(&self, said: &Said) -> Option<&Found> {
        said.about.map(|at| &self.found[at])
    }

    pub(super) fn exit_code(&self, deny: Severity) -> u8 {
        let is_denied = self.open().any(|said| said.finding.severity >= deny);
        if self.problems.is_empty() { u8::from(is_denied) } else { 2 }
    }
}

fn unknown() -> Problem {
    let formats = Format::ALL.map(Format::name).join(", ");
    Problem::whole("nothing here that I know as a retry config")
        .help(format!("formats are {formats}; use --from to say which it is"))
}
