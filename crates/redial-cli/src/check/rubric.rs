//! The score of each policy in the payment exercise.

use std::io::{self, Write};

use redial_policy::PositionCursor;
use redial_policy::rubric::{RubricPoint, RubricScore};
use serde_json::{Value, json};

use super::human;
use super::report::Report;
use crate::text::sanitise;

/// A policy with fewer points fails the check: four out of five are solid.
const ENOUGH: usize = 4;

/// The scores of all policies, with the index of each in the report.
fn scores(report: &Report) -> Vec<(usize, RubricScore)> {
    let findings = report.open().map(|located| &located.finding);
    let score = |(at, found)| (at, RubricScore::of(found, findings.clone()));
    report.found.iter().enumerate().map(score).collect()
}

pub(super) fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    for (at, score) in scores(report) {
        let place = report.place_of(at);
        let (met, of) = (score.met(), score.points.len());
        let (name, file) = (sanitise(&score.policy), sanitise(place.name()));
        writeln!(out, "{name} ({file}): {met} of {of}, {}", score.grade())?;
        for RubricPoint { criterion, met, why, .. } in &score.points {
            let sign = if *met { '✓' } else { '✗' };
            writeln!(out, "  {sign} {}: {}", criterion.about, sanitise(why))?;
        }
    }
    out.flush()?;
    human::problems(report)
}

pub(super) fn json(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let scores = scores(report).into_iter().map(|(at, score)| {
        let source = report.place_of(at);
        let points = score.points.iter().map(|point| {
            json!({
                "name": point.criterion.name,
                "about": point.criterion.about,
                "met": point.met,
                "why": point.why,
                "line": PositionCursor::new(source.text()).go(point.place.span).line,
                "rules": point.criterion.rules.iter().map(|rule| rule.name).collect::<Vec<_>>(),
            })
        });
        json!({
            "policy": score.policy,
            "file": source.name(),
            "met": score.met(),
            "of": score.points.len(),
            "grade": score.grade(),
            "points": points.collect::<Vec<Value>>(),
        })
    });
    writeln!(out, "{:#}", json!({ "scores": scores.collect::<Vec<Value>>() }))
}

/// 2 if something could not be read, 1 if a policy has too few points.
pub(super) fn exit_code(report: &Report) -> u8 {
    let is_low = scores(report).iter().any(|(_, score)| score.met() < ENOUGH);
    if report.problems.is_empty() { u8::from(is_low) } else { 2 }
}
