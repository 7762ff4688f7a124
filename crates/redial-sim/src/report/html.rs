//! A self-contained page: the question with every parameter, the results, and how to reproduce them. One file,
//! without scripts or external resources.

use redial_policy::file::full_text;

use super::figure::Layout;
use super::svg::{STYLE, escape};
use super::{Report, SimulationSetup, TextTable};
use crate::measure::Metric;
use crate::number::{count, milliseconds};
use crate::{Scenario, Subject};

const PAGE_STYLE: &str = "\
:root{color-scheme:light dark}body{background:var(--bg);color:var(--fg);max-width:1080px;margin:2rem auto;\
padding:0 1.2rem;font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif}\
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .4rem}h2{font-size:1.15rem;margin:2rem 0 .6rem}\
h3{font-size:1rem;margin:1.2rem 0 .3rem;overflow-wrap:anywhere}p{max-width:46rem}.dim{color:var(--dim)}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums}\
th,td{padding:.35rem .55rem;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}\
th{vertical-align:bottom;font-weight:600;white-space:normal}th:first-child,td:first-child{text-align:left;padding-left:0}\
td:first-child{font-weight:600;white-space:normal;overflow-wrap:anywhere;min-width:6rem;max-width:18rem}\
svg{max-width:100%;height:auto}.wide>svg{min-width:640px}.narrow{display:none}\
@media(max-width:720px){body{margin:1rem auto;padding:0 .8rem}.broad{display:none}.narrow{display:block}}\
pre{background:color-mix(in srgb,var(--rule) 35%,transparent);padding:.8rem 1rem;overflow-x:auto;border-radius:6px;\
font:13px/1.45 ui-monospace,'SF Mono',Menlo,Consolas,'Liberation Mono',monospace}\
blockquote{margin:1rem 0;padding:.1rem 1rem;border-left:3px solid var(--retry)}";

impl Report<'_> {
    /// The page as a standalone file.
    pub fn html(&self) -> String {
        let mut page = Page::new(&self.question, self.scenario, "policy");
        page.heading("Results");
        page.paragraph(&self.verdict().unwrap_or_default());
        page.table(&self.table());
        page.paragraph(&self.reading());
        self.notes().iter().for_each(|note| page.paragraph(note));
        if let Some(claim) = &self.scenario.claim {
            page.claim(claim, &self.beside_claim());
        }
        page.figures(&self.figure(Layout::WIDE, false), &self.figure(Layout::NARROW, false));
        page.parameters(&self.question);
        let policies = self.cases.iter().map(|case| &case.subject);
        page.policies(policies);
        page.again(&self.question, self.cases.iter().map(|case| case.summary.runs).min());
        page.finish()
    }

    /// The results of each policy, in the terms of the claim.
    pub fn beside_claim(&self) -> Vec<String> {
        let ran = self.cases.iter().filter(|case| case.summary.runs > 0);
        ran.map(|case| {
            let summary = &case.summary;
            let most = summary.series.retries.iter().copied().fold(0.0, f64::max);
            let peak = self.scenario.rate().map(|rate| {
                format!(
                    "{} served a second at the peak, ",
                    count(rate * summary.mean(Metric::ServedPeakRatio))
                )
            });
            let retries = match summary.mean(Metric::Retries) {
                0.0 => "no retries".to_owned(),
                retries => format!(
                    "{} retries over {}, at most {} in {} ({} a second)",
                    count(retries),
                    milliseconds(summary.mean(Metric::SmearMs)),
                    count(most),
                    milliseconds(summary.series.window_ms),
                    count(most * 1e3 / summary.series.window_ms)
                ),
            };
            format!("{}: {}{retries}", case.subject.name, peak.unwrap_or_default())
        })
        .collect()
    }

    fn reading(&self) -> String {
        let mut text = "Amplification is attempts ÷ calls. The peak ratio is the most attempts that arrived in a \
                        window, as a multiple of the usual number"
            .to_owned();
        if self.scenario.rate().is_none() {
            text.push_str(
                "; where all callers begin at once, the most retries, as a share of all callers",
            );
        }
        text.push('.');
        if self.question.runs > 1 {
            text.push_str(" Numbers are means over the runs, ± their standard errors.");
        }
        if self.tells_collapse() {
            text.push_str(
                " Collapse is the share of the runs in which most calls failed at the end, long after the \
                 fault; in brackets the 95 % confidence interval.",
            );
        }
        text
    }
}

/// A page under construction.
pub(super) struct Page {
    out: String,
}

impl Page {
    /// `each` is what was run: policy or cell.
    pub(super) fn new(question: &SimulationSetup<'_>, scenario: &Scenario, each: &str) -> Self {
        let mut page = Self::titled(&scenario.title);
        page.out.push_str(&format!(
            "<p class=\"dim\">Scenario {}, simulated by {}, seed {}, {} of each {each}.</p>\n",
            escape(question.name),
            match question.engine {
                Some(engine) => format!("the {engine}"),
                None => "several engines".to_owned(),
            },
            question.seed,
            match question.runs {
                1 => "one run".to_owned(),
                runs => format!("{runs} runs"),
            },
        ));
        scenario.teaches.split("\n\n").for_each(|text| page.paragraph(text));
        page
    }

    /// With nothing but a title.
    pub(super) fn titled(title: &str) -> Self {
        let title = escape(title);
        let out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <title>{title}</title>\n<style>{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        Self { out }
    }

    pub(super) fn heading(&mut self, text: &str) {
        self.element("h2", text);
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.element("p", text.trim());
        }
    }

    pub(super) fn table(&mut self, table: &TextTable) {
        let heads: Vec<String> = table.columns.iter().map(|column| column.title()).collect();
        self.rows(&heads, &table.rows);
    }

    pub(super) fn rows(&mut self, heads: &[String], rows: &[Vec<String>]) {
        let line = |tag: &str, cells: &[String]| {
            let cells: String =
                cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
            format!("<tr>{cells}</tr>\n")
        };
        let rows: String = rows.iter().map(|row| line("td", row)).collect();
        self.out.push_str(&format!(
            "<div class=\"wide\"><table>\n<thead>{}</thead>\n<tbody>{rows}</tbody>\n</table></div>\n",
            line("th", heads)
        ));
    }

    fn claim(&mut self, claim: &str, ours: &[String]) {
        self.heading("Claim and results");
        self.out.push_str(&format!(
            "<blockquote><p>Claimed: {}</p></blockquote>\n<ul>\n",
            escape(claim)
        ));
        ours.iter().for_each(|line| self.element("li", line));
        self.out.push_str("</ul>\n");
    }

    pub(super) fn figure(&mut self, svg: &str) {
        self.out.push_str(&format!("<div class=\"wide\">\n{svg}</div>\n"));
    }

    /// The same figure for wide and for narrow screens.
    fn figures(&mut self, wide: &str, narrow: &str) {
        self.out.push_str(&format!(
            "<div class=\"broad\">\n{wide}</div>\n<div class=\"narrow\">\n{narrow}</div>\n"
        ));
    }

    pub(super) fn parameters(&mut self, question: &SimulationSetup<'_>) {
        self.heading("The scenario");
        if !question.sets.is_empty() {
            let sets: Vec<String> = question.sets.iter().map(ToString::to_string).collect();
            self.paragraph(&format!("The file below, with {}.", sets.join(", ")));
        }
        self.element("pre", question.text);
    }

    pub(super) fn policies<'a>(&mut self, subjects: impl Iterator<Item = &'a Subject>) {
        self.heading("The policies");
        for subject in subjects {
            self.element("h3", &subject.name);
            if subject.careless {
                self.paragraph("Its callers retry any failure, safe or not.");
            }
            self.element("pre", full_text(&subject.policy).trim_end());
        }
    }

    /// `made` is the least number of runs of any policy.
    pub(super) fn again(&mut self, question: &SimulationSetup<'_>, made: Option<u32>) {
        self.command(question.command);
        if made.is_some_and(|made| made < question.runs) {
            self.paragraph("It was stopped before all runs were made; the results are those of the runs that were made.");
        }
    }

    pub(super) fn command(&mut self, command: &str) {
        self.heading("How to reproduce it");
        self.element("pre", command);
    }

    pub(super) fn finish(mut self) -> String {
        self.out.push_str("</body>\n</html>\n");
        self.out
    }

    fn element(&mut self, tag: &str, text: &str) {
        self.out.push_str(&format!("<{tag}>{}</{tag}>\n", escape(text)));
    }
}
