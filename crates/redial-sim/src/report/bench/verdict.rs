//! The bench in a few lines.

use super::{BenchReport, points};
use crate::bench::{Measure, Ranking, Suite};
use crate::number::ratio;
use crate::report::verdict::{listed, verb};

/// The policies of a suite in all cells, the least regret first.
pub struct Standing {
    /// Which policy comes closest to the best one of each cell, which one costs the most load, and which collapse.
    pub verdict: String,
    /// The headings, and then a row for each policy.
    pub lines: Vec<Vec<String>>,
}

impl BenchReport<'_> {
    /// The standing in each suite with results.
    pub fn standings(&self) -> Vec<Standing> {
        let of_suite = |suite: Suite| {
            let mut ranking = self.ranking(suite, None, Measure::WholeRun);
            ranking.retain(|it| it.name != "oracle");
            let verdict = verdict(suite, &ranking)?;
            let heads =
                ["policy", "mean regret", "worst regret", "attempts per call", "own collapses"];
            let heads = heads.map(str::to_owned).to_vec();
            let lines = std::iter::once(heads).chain(ranking.iter().map(row)).collect();
            Some(Standing { verdict, lines })
        };
        self.suites().into_iter().filter_map(of_suite).collect()
    }
}

fn row(it: &Ranking) -> Vec<String> {
    vec![
        it.name.clone(),
        points(it.whole_run.mean_regret.value),
        points(it.whole_run.worst_regret.0),
        ratio(it.attempts_per_call),
        it.own_collapses.to_string(),
    ]
}

fn verdict(suite: Suite, ranking: &[Ranking]) -> Option<String> {
    let first = ranking.first()?;
    let regret = |it: &Ranking| points(it.whole_run.mean_regret.value);
    let attempts = |it: &Ranking| ratio(it.attempts_per_call);
    let names = |is: &dyn Fn(&Ranking) -> bool| -> Vec<&str> {
        ranking.iter().filter(|it| is(it)).map(|it| it.name.as_str()).collect()
    };
    let kind = match suite {
        Suite::BuiltIn | Suite::Named => "",
        Suite::Random => "random ",
        Suite::HighTraffic => "high-traffic ",
    };
    let cells = if first.cells == 1 { "cell" } else { "cells" };
    let start = format!("In {} {kind}{cells}", first.cells);
    let best = names(&|it| regret(it) == regret(first));
    let lost = format!("{} points more of the calls lost, on average", regret(first));
    // Regret is not below zero, so it is no statement about the fewest lost calls.
    let mut clauses = vec![if best.len() == ranking.len() {
        let who = if best.len() == 1 { &first.name } else { "each policy" };
        format!("{start} {who} is this close to the best policy for each: {lost}")
    } else {
        let come = verb(&best, "come");
        format!("{start} {} {come} closest to the best policy for each ({lost})", listed(&best))
    }];
    let most = ranking.iter().fold(first, |most, it| {
        if it.attempts_per_call > most.attempts_per_call { it } else { most }
    });
    if attempts(most) != attempts(first) {
        let who = names(&|it| attempts(it) == attempts(most));
        clauses.push(format!(
            "{} {} the most load ({} attempts per call; {} makes {})",
            listed(&who),
            verb(&who, "cost"),
            attempts(most),
            first.name,
            attempts(first)
        ));
    }
    let own = names(&|it| it.own_collapses > 0);
    if !own.is_empty() {
        let (who, collapse) = (listed(&own), verb(&own, "collapse"));
        clauses.push(format!("{who} {collapse} where one attempt does not"));
    }
    Some(format!("{}.", clauses.join("; ")))
}
