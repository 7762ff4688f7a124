//! A self-contained page.

use super::BenchReport;
use crate::bench::Family;
use crate::report::html::Page;

impl BenchReport<'_> {
    /// The page as a standalone file.
    pub fn html(&self) -> String {
        let mut page = Page::titled("Which policy?");
        let (cells, runs) = (self.results.len(), self.plan.runs);
        page.paragraph(&format!(
            "{cells} cells, seed {}, {runs} runs of each policy in each cell.",
            self.plan.seed
        ));
        page.paragraph(Self::reading());
        for (title, family) in [
            ("All cells", None),
            ("Only the deadline ends an attempt", Some(Family::Deadline)),
            ("The user has set a timeout of attempts", Some(Family::Timeout)),
        ] {
            page.heading(title);
            page.table(&self.table(family));
        }
        page.figure(&self.figure(false));
        page.heading("The cells");
        let (heads, rows) = self.cells();
        page.rows(&heads, &rows);
        page.policies(self.plan.subjects.iter());
        page.command(self.command);
        page.finish()
    }
}
