//! What the figures mean: a sentence for each policy, and a verdict that compares them.
//!
//! A sentence must be true of every result: with equal figures, without losses, where everything collapses, and of a single
//! policy. So policies are ranked by what is printed of them, and a difference within the error of the runs is none.

use super::{Case, Report};
use crate::measure::{Metric, Share, Spread, Summary};
use crate::number::{count, percent, ratio};

/// More names than this are counted.
const MOST_NAMES: usize = 4;
/// Means of runs that differ by less than this many standard errors are not told apart.
const ERRORS: f64 = 2.0;

impl Report<'_> {
    /// What became of the calls of a policy, and what they cost; `None` without a completed run.
    pub fn sentence(&self, case: &Case) -> Option<String> {
        let name = &case.subject.name;
        match self.facts(case) {
            Some(facts) => Some(format!("{name} {}.", facts.predicate())),
            None if case.summary.runs > 0 => Some(format!("{name} got no calls.")),
            None => None,
        }
    }

    /// Which policy loses the fewest calls, which one costs the most load, and which collapse; `None` without a completed
    /// run.
    pub fn verdict(&self) -> Option<String> {
        let all: Vec<Facts<'_>> = self.cases.iter().filter_map(|case| self.facts(case)).collect();
        match &all[..] {
            [] => None,
            [only] => Some(format!("In this setting {} {}.", only.name, only.predicate())),
            _ => {
                let (first, best, is_alone) = fewest_lost(&all);
                let load = load(&all, best, is_alone);
                let clauses = [Some(first), load, collapses(&all), duplicates(&all)];
                let clauses = clauses.into_iter().flatten().collect::<Vec<_>>();
                Some(format!("In this setting {}.", clauses.join("; ")))
            }
        }
    }

    fn facts<'a>(&self, case: &'a Case) -> Option<Facts<'a>> {
        let summary = &case.summary;
        if summary.runs == 0 || summary.mean(Metric::Calls) == 0.0 {
            return None;
        }
        // Where there are callers with other policies, those under test are counted alone.
        let own = summary.value(Metric::OwnSuccess);
        let success = own.or(summary.value(Metric::Success))?;
        let attempts = summary.mean(Metric::Amplification);
        let calls = if own.is_some() { "its calls" } else { "the calls" };
        let (unit, load_of) = if self.scenario.service.is_empty() {
            ("attempts per call", "makes")
        } else {
            ("requests per call at the busiest service", "causes")
        };
        let name = &case.subject.name;
        Some(Facts { name, summary, success, attempts, calls, unit, load_of })
    }
}

/// The figures of a policy that sentences are about.
struct Facts<'a> {
    name: &'a str,
    summary: &'a Summary,
    success: Spread,
    attempts: f64,
    calls: &'static str,
    unit: &'static str,
    load_of: &'static str,
}

impl Facts<'_> {
    /// "loses 3.3 % of the calls, makes 1.05 attempts per call, and collapses in 2 of 20 runs".
    fn predicate(&self) -> String {
        let mut parts = vec![
            format!("loses {}", self.lost_calls()),
            format!("{} {} {}", self.load_of, ratio(self.attempts), self.unit),
        ];
        let twice = self.duplicates();
        if twice > 0.0 {
            let each = if self.summary.runs > 1 { " in a run" } else { "" };
            parts
                .push(format!("repeats {} requests that must not be repeated{each}", count(twice)));
        }
        parts.extend(self.collapses().map(|runs| format!("collapses{runs}")));
        series(&parts)
    }

    fn lost_calls(&self) -> String {
        match self.lost() {
            0.0 => "no call".to_owned(),
            1.0 => format!("all of {}", self.calls),
            lost => format!("{} of {}", share(lost), self.calls),
        }
    }

    fn lost(&self) -> f64 {
        1.0 - self.success.mean
    }

    /// As it is printed.
    fn lost_text(&self) -> String {
        share(self.lost())
    }

    fn duplicates(&self) -> f64 {
        self.summary.mean(Metric::Duplicates)
    }

    /// In which runs; `None` if in none.
    fn collapses(&self) -> Option<String> {
        let (Share { value, .. }, runs) = (self.summary.collapse, self.summary.runs);
        match (value * f64::from(runs)).round() as u32 {
            0 => None,
            _ if runs == 1 => Some(String::new()),
            all if all == runs => Some(format!(" in all {runs} runs")),
            some => Some(format!(" in {some} of {runs} runs")),
        }
    }

    /// Whether it cannot be told from this one by what it loses.
    fn loses_like(&self, best: &Self) -> bool {
        let errors = self.success.standard_error.hypot(best.success.standard_error);
        self.lost_text() == best.lost_text() || self.lost() - best.lost() <= ERRORS * errors
    }
}

/// The first clause, and which policy it is about: of those that lose the fewest calls, the one with the fewest attempts.
/// Also whether it is the only one that the clause names.
fn fewest_lost<'a>(all: &'a [Facts<'a>]) -> (String, &'a Facts<'a>, bool) {
    let least = by(all.iter(), |it| it.lost()).unwrap_or(&all[0]);
    let group: Vec<&Facts<'_>> = all.iter().filter(|it| it.loses_like(least)).collect();
    let best = by(group.iter().copied(), |it| it.attempts).unwrap_or(least);
    let most = by(group.iter().copied(), |it| -it.lost()).unwrap_or(least);
    let is_all = group.len() == all.len();
    let (low, high) = (least.lost_text(), most.lost_text());
    let (figures, same) = if low == high {
        (low, "the same share of the calls")
    } else {
        (
            format!("{low} to {high}"),
            "shares of the calls that differ only by the error of these runs",
        )
    };
    let note = if is_all || most.lost_text() == least.lost_text() {
        ""
    } else {
        ", a difference within the error of these runs"
    };
    let names: Vec<&str> = group.iter().map(|it| it.name).collect();
    let mut clause = match (is_all, least.lost(), most.lost()) {
        (true, _, 0.0) => "no policy loses a call".to_owned(),
        (true, 1.0, _) => "every policy loses every call".to_owned(),
        (true, ..) => format!("all policies lose {same} ({figures})"),
        (false, _, 0.0) => format!("{} {} no call", listed(&names), verb(&names, "lose")),
        (false, ..) => {
            format!(
                "{} {} the fewest calls ({figures}{note})",
                listed(&names),
                verb(&names, "lose")
            )
        }
    };
    let differ = group.iter().any(|it| ratio(it.attempts) != ratio(best.attempts));
    let attempts = ratio(best.attempts);
    if differ {
        clause += &format!(", {} with the least load ({attempts} {})", best.name, best.unit);
    } else {
        clause += &format!(", with {attempts} {}", best.unit);
    }
    (clause, best, !is_all && group.len() == 1)
}

/// Which policy costs the most load, compared with the best one.
fn load(all: &[Facts<'_>], best: &Facts<'_>, is_alone: bool) -> Option<String> {
    let text = |it: &Facts<'_>| ratio(it.attempts);
    let most = by(all.iter(), |it| -it.attempts)?;
    if text(most) != text(best) {
        let names: Vec<&str> =
            all.iter().filter(|it| text(it) == text(most)).map(|it| it.name).collect();
        let cost = more(most.attempts, best.attempts)?;
        let (who, costs) = (listed(&names), verb(&names, "cost"));
        return Some(format!("{who} {costs} {cost} {} ({} {})", best.name, text(most), most.unit));
    }
    let least = by(all.iter(), |it| it.attempts)?;
    let cost = more(best.attempts, least.attempts).filter(|_| text(least) != text(best))?;
    let (name, lost) = (least.name, least.lost_calls());
    let who = if is_alone { "it" } else { best.name };
    Some(format!("{who} costs {cost} {name}, which loses {lost}"))
}

/// "23.4 % more load than" or "3.20 times the load of".
fn more(attempts: f64, than: f64) -> Option<String> {
    let times = (than > 0.0).then(|| attempts / than)?;
    Some(match times {
        ..2.0 => format!("{} more load than", percent(times - 1.0)),
        _ => format!("{} times the load of", ratio(times)),
    })
}

fn collapses(all: &[Facts<'_>]) -> Option<String> {
    let each: Vec<(&str, String)> =
        all.iter().filter_map(|it| Some((it.name, it.collapses()?))).collect();
    let (_, runs) = each.first()?;
    if each.iter().any(|(_, other)| other != runs) {
        let each =
            each.iter().take(MOST_NAMES).map(|(name, runs)| format!("{name} collapses{runs}"));
        let more = others(all.iter().filter(|it| it.collapses().is_some()).count());
        return Some(series(
            &each.chain(more.map(|it| format!("{it} collapse"))).collect::<Vec<_>>(),
        ));
    }
    let names: Vec<&str> = each.iter().map(|(name, _)| *name).collect();
    if names.len() == all.len() {
        return Some(format!("every policy collapses{runs}"));
    }
    Some(format!("{} {}{runs}", listed(&names), verb(&names, "collapse")))
}

fn duplicates(all: &[Facts<'_>]) -> Option<String> {
    let names: Vec<&str> =
        all.iter().filter(|it| it.duplicates() > 0.0).map(|it| it.name).collect();
    let (who, repeat) = (listed(&names), verb(&names, "repeat"));
    (!names.is_empty()).then(|| format!("{who} {repeat} requests that must not be repeated"))
}

/// The first item with the least value.
fn by<'a, T>(mut all: impl Iterator<Item = &'a T>, of: impl Fn(&T) -> f64) -> Option<&'a T> {
    let first = all.next()?;
    Some(all.fold(first, |least, it| if of(it) < of(least) { it } else { least }))
}

/// A share that is neither 0 nor 1 is not printed as if it were.
fn share(share: f64) -> String {
    match percent(share) {
        text if text == "0.000 %" => "less than 0.001 %".to_owned(),
        text if text == "100.000 %" => "more than 99.999 %".to_owned(),
        text => text,
    }
}

/// The verb in the number of the names.
pub(super) fn verb(names: &[&str], plural: &str) -> String {
    if names.len() == 1 { format!("{plural}s") } else { plural.to_owned() }
}

/// "a, b and c", or "a, b, c, d and 7 others".
pub(super) fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(MOST_NAMES).map(|name| (*name).to_owned());
    series(&shown.chain(others(names.len())).collect::<Vec<_>>())
}

fn others(all: usize) -> Option<String> {
    match all.saturating_sub(MOST_NAMES) {
        0 => None,
        1 => Some("one other".to_owned()),
        more => Some(format!("{more} others")),
    }
}

fn series(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
