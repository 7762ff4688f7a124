//! The findings of tidy, compared with expected ones.

use xtask::tidy::Finding;

pub(crate) struct Findings(Vec<String>);

impl Findings {
    pub(crate) fn new(findings: &[Finding]) -> Self {
        Self(findings.iter().map(Finding::to_string).collect())
    }

    /// Each finding starts with its expected text, and there is no other.
    #[track_caller]
    pub(crate) fn is(&self, starts: &[&str]) {
        let Self(found) = self;
        let same = found.len() == starts.len()
            && found.iter().zip(starts).all(|(found, start)| found.starts_with(start));
        assert!(same, "expected {starts:#?}, found {found:#?}");
    }

    #[track_caller]
    pub(crate) fn is_empty(&self) {
        self.is(&[]);
    }
}
