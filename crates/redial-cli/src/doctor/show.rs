//! Prints a diagnosis, for people or as JSON.

use std::io::{self, Write};

use redial_cli::diagnose::{Diagnosed, DiagnosedKind, Diagnosis};
use redial_core::storm::{Flow, Level};
use serde_json::{Value, json};

use crate::duration;
use crate::text::{sanitise, wrap};

/// The most idle subjects that are named: an Envoy may have a thousand idle clusters.
const MOST_IDLE: usize = 20;

/// Sentences, the worst first.
pub(super) fn words(
    place: &str,
    diagnosis: &Diagnosis,
    width: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let over = duration::text(diagnosis.over);
    let (idle, seen): (Vec<_>, Vec<_>) =
        diagnosis.subjects.iter().partition(|subject| subject.is_idle());
    let is_unreliable = seen.iter().any(|subject| subject.is_unreliable);
    let verdict = match diagnosis.level() {
        None if seen.is_empty() => "nothing to judge",
        None if is_unreliable => "unknown",
        None => "too little to judge",
        Some(Level::Calm) if is_unreliable => "no storm where it could be judged",
        Some(Level::Calm) => "no storm",
        Some(Level::Warn) => "nearly a storm",
        Some(Level::Storm) => "a storm",
        Some(Level::Critical) => "a critical storm",
    };
    paragraph(out, width, "", &format!("{verdict}: {place}, measured for {over}"))?;
    for subject in seen {
        writeln!(out)?;
        paragraph(out, width, "", &format!("{}: {}", level(subject), sentence(subject)))?;
        for finding in &subject.findings {
            paragraph(out, width, "  - ", &finding.saw)?;
            paragraph(out, width, "    fix: ", finding.symptom.fix())?;
        }
        for unknown in &subject.unknown {
            paragraph(out, width, "  ? ", &format!("cannot tell {}", sanitise(unknown)))?;
        }
    }
    if !idle.is_empty() {
        let named =
            |subject: &&Diagnosed| format!("{} {}", subject.kind.name(), sanitise(&subject.name));
        let mut names: Vec<_> = idle.iter().take(MOST_IDLE).map(named).collect();
        if let Some(more) = idle.len().checked_sub(MOST_IDLE).filter(|more| *more > 0) {
            names.push(format!("and {more} more"));
        }
        writeln!(out)?;
        paragraph(
            out,
            width,
            "",
            &format!("idle: {} (--for 1m measures longer)", names.join(", ")),
        )?;
    }
    if !diagnosis.unknown.is_empty() {
        writeln!(out)?;
    }
    for unknown in &diagnosis.unknown {
        paragraph(out, width, "? ", &format!("cannot tell {unknown}"))?;
    }
    Ok(())
}

fn level(subject: &Diagnosed) -> &'static str {
    match subject.level() {
        Some(level) => level.name(),
        None if subject.is_unreliable => "unknown",
        None if subject.kind >= DiagnosedKind::Queue && subject.findings.is_empty() => "ok",
        None if subject.kind >= DiagnosedKind::Queue => "attention",
        None => "unknown",
    }
}

fn sentence(subject: &Diagnosed) -> String {
    let name = sanitise(&subject.name);
    let Some(flow) = subject.flow.filter(|flow| flow.calls > 0) else {
        return format!("{} {name}", subject.kind.name());
    };
    if let Some(ratio) = subject.of_jobs {
        let (ratio, Flow { attempts, calls, .. }) = (number(ratio), flow);
        return format!(
            "the workers of {name} report {ratio} attempts per job over their own window (attempts: {attempts}, jobs \
             begun: {calls})"
        );
    }
    let multiplier = number(flow.multiplier().unwrap_or_default());
    let first = match subject.kind {
        kind if flow.fresh() == 0 => {
            format!("all calls to {} {name} are retries from a layer above", kind.name())
        }
        DiagnosedKind::Server => {
            format!("each user request arrives {multiplier} times at server {name}")
        }
        DiagnosedKind::Cluster => {
            format!("Envoy sends {multiplier} attempts per call to cluster {name}")
        }
        _ => format!("this client sends {multiplier} attempts per call to upstream {name}"),
    };
    let usual = subject.surge.map(|surge| format!(", {surge:.1} times the baseline"));
    let counted = counted(subject.kind, &flow) + &usual.unwrap_or_default();
    format!("{first}; {} ({counted})", share(subject.kind, &flow))
}

fn share(kind: DiagnosedKind, flow: &Flow) -> String {
    let own =
        if kind == DiagnosedKind::Cluster { "Envoy's own retries" } else { "its own retries" };
    match flow.from_above() {
        None if kind == DiagnosedKind::Server => "none is marked as a retry".to_owned(),
        None => "there are no more attempts than calls".to_owned(),
        Some(0.0) => format!("the excess is {own}"),
        Some(1.0) => "the excess is retries from a layer above".to_owned(),
        Some(above) => {
            // Rounding must not turn a part into all or nothing.
            let percent = (above * 100.0).round().clamp(1.0, 99.0);
            format!("{percent}% of the excess is retries from a layer above, the rest is {own}")
        }
    }
}

/// The numbers behind the sentence: calls are the fresh ones, which the multiplier divides by.
fn counted(kind: DiagnosedKind, flow: &Flow) -> String {
    let (attempts, fresh) = (flow.attempts, flow.fresh());
    match (kind, flow.inherited) {
        (DiagnosedKind::Server, 0) => format!("requests: {attempts}"),
        (DiagnosedKind::Server, above) => format!("requests: {attempts}, {above} of them retries"),
        (_, 0) => format!("attempts: {attempts}, calls: {fresh}"),
        (_, above) => {
            format!("attempts: {attempts}, calls: {fresh}, and {above} for retries from above")
        }
    }
}

/// Two decimals where they matter, and never rounded up past the threshold of a level.
fn number(multiplier: f64) -> String {
    if multiplier < 1.1 {
        return format!("{multiplier:.2}");
    }
    let near = (multiplier * 10.0).round() / 10.0;
    let is_above = Level::of(near) > Level::of(multiplier);
    format!("{:.1}", if is_above { near - 0.1 } else { near })
}

/// A paragraph: `mark` before the first line, and the other lines indented below the first.
fn paragraph(out: &mut impl Write, width: usize, mark: &str, text: &str) -> io::Result<()> {
    let mut mark = mark.to_owned();
    for line in wrap(text, width - mark.len()) {
        writeln!(out, "{mark}{line}")?;
        mark = " ".repeat(mark.len());
    }
    Ok(())
}

/// The same as JSON.
pub(super) fn json(place: &str, diagnosis: &Diagnosis) -> Value {
    json!({
        "url": place,
        "seconds": diagnosis.over.as_secs_f64(),
        "level": diagnosis.level().map(Level::name),
        "subjects": diagnosis.subjects.iter().map(subject).collect::<Vec<_>>(),
        "unknown": diagnosis.unknown,
    })
}

fn subject(subject: &Diagnosed) -> Value {
    let findings = subject.findings.iter().map(|finding| {
        json!({
            "symptom": finding.symptom.name(),
            "saw": finding.saw,
            "fix": finding.symptom.fix(),
        })
    });
    let flow = subject.flow.as_ref();
    json!({
        "kind": subject.kind.name(),
        "name": subject.name,
        "level": subject.level().map(Level::name),
        "calls": flow.map(|flow| flow.calls),
        "inherited": flow.map(|flow| flow.inherited),
        "attempts": flow.map(|flow| flow.attempts),
        "multiplier": flow.and_then(Flow::multiplier),
        "amplification": flow.and_then(Flow::amplification),
        "from_above": flow.and_then(Flow::from_above),
        "surge": subject.surge,
        "of_jobs": subject.of_jobs,
        "findings": findings.collect::<Vec<_>>(),
        "unknown": subject.unknown,
    })
}
