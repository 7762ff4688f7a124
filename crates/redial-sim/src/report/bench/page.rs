//! A self-contained page.

use super::BenchReport;
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
        self.standings().iter().for_each(|it| page.paragraph(&it.verdict));
        page.paragraph(Self::reading());
        if let Some((title, table)) = self.bar_table() {
            page.heading(&title);
            page.paragraph(Self::reading_bars());
            page.table(&table);
        }
        for (title, table) in self.tables() {
            page.heading(&title);
            page.table(&table);
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
