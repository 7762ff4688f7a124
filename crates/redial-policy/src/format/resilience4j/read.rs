use std::collections::HashSet;

use redial_core::schedule::{Backoff, Growth, Jitter};
use redial_core::{Draft, LONGEST_DURATION, Span};

use super::super::import::{Import, Metadata};
use super::super::time::SHORTEST_DURATION;
use super::super::{Format, constant};
use super::leaves::{self, Leaf, Leaves, duration};
use super::{MULTIPLIER, RANDOM, WAIT};
use super::{exceptions, guards};
use crate::file::Setting;
use crate::finding::reading::SILENTLY_CLAMPED;
use crate::format::{ConfigReading, Note};
use crate::source::{Problem, Problems, TextSpan};
use crate::tree::{Cursor, Document, Truncated};

pub(super) fn read(documents: &[Document], reading: &mut ConfigReading) {
    let mine: Vec<_> =
        documents.iter().filter(|document| super::recognises(&document.node)).collect();
    for documents in mine.chunk_by(|a, b| (a.source, a.part) == (b.source, b.part)) {
        let (profiled, plain): (Vec<&Document>, Vec<&Document>) =
            documents.iter().partition(|document| leaves::profile(document).is_some());
        let all: Vec<_> = plain.iter().flat_map(|document| leaves::of(document)).collect();
        let mut shared = Leaves::default();
        shared.put(all.iter().cloned());
        let mut seen = HashSet::new();
        if let Some(first) = plain.first() {
            instances(first, &[&shared], &all, None, (&mut seen, reading));
        }
        for document in profiled {
            let own = leaves::of(document);
            let mut leaves = Leaves::default();
            leaves.put(own.iter().cloned());
            let profile = leaves::profile(document);
            instances(
                document,
                &[&shared, &leaves],
                &own,
                profile.as_deref(),
                (&mut seen, reading),
            );
        }
    }
}

/// Reads every instance that is named in `named`.
fn instances(
    document: &Document,
    all: &[&Leaves<'_>],
    named: &[Leaf<'_>],
    profile: Option<&str>,
    (seen, reading): (&mut HashSet<TextSpan>, &mut ConfigReading),
) {
    let mut done = HashSet::new();
    let of_retry = |leaf: &&Leaf<'_>| leaf.module == "retry";
    // Without instances, the default config still applies to instances that only the code names.
    let only_configs = named.iter().filter(of_retry).all(|leaf| leaf.shared);
    let is_named = |leaf: &&Leaf<'_>| !leaf.shared || only_configs && leaf.name == "default";
    for leaf in named.iter().filter(of_retry).filter(is_named) {
        if !done.insert(&leaf.name) {
            continue;
        }
        let name = profile.map_or(leaf.name.clone(), |profile| format!("{}@{profile}", leaf.name));
        instance(document, (leaf, name), all, seen, reading);
    }
}

fn instance(
    document: &Document,
    (leaf, name): (&Leaf<'_>, String),
    all: &[&Leaves<'_>],
    seen: &mut HashSet<TextSpan>,
    reading: &mut ConfigReading,
) {
    let mut import = Import::new(document, &leaf.here);
    let chain = Chain::new(all, "retry", &leaf.name, &import.problems);
    let attempts = match chain.get("maxattempts") {
        Some(here) => {
            let help = "it counts attempts, including the first; 1 disables retries";
            import.attempts(here, 1, help)
        }
        None => {
            import.notes.push(Note::kept("maxAttempts", "attempts = 3 by default"));
            None
        }
    };
    let backoff = chain.backoff(&mut import);
    let on = exceptions::retry_on(&chain, &mut import);
    let draft = Draft::bare(attempts.unwrap_or(3)).backoff(backoff).retry_on(on);
    others(&chain, &mut import);
    chain.unknown(&KNOWN, seen, &mut import);
    let mut setting = Setting::default();
    let draft = guards::join((all, &leaf.name), draft, &mut setting, seen, &mut import);
    let metadata = Metadata { format: Format::Resilience4j, name, routes: Vec::new(), setting };
    import.finish(draft, metadata, reading);
}

const KNOWN: [&str; 16] = [
    "maxAttempts",
    "waitDuration",
    "enableExponentialBackoff",
    "exponentialBackoffMultiplier",
    "exponentialMaxWaitDuration",
    "enableRandomizedWait",
    "randomizedWaitFactor",
    "retryExceptions",
    "ignoreExceptions",
    "retryExceptionPredicate",
    "resultPredicate",
    "intervalBiFunction",
    "consumeResultBeforeRetryAttempt",
    "failAfterMaxAttempts",
    "eventConsumerBufferSize",
    "baseConfig",
];

/// Notes on fields that have no counterpart.
fn others(chain: &Chain<'_, '_>, import: &mut Import<'_>) {
    let dropped = [
        ("resultpredicate", "a Java class decides about results, in addition to exceptions"),
        (
            "intervalbifunction",
            "a Java class computes the waits; the other fields are used instead",
        ),
        ("failaftermaxattempts", "concerns the result of the call"),
        ("consumeresultbeforeretryattempt", "concerns the result of the call"),
        ("eventconsumerbuffersize", "concerns metrics"),
    ];
    for here in chain.levels.iter().filter_map(|level| find(level, "baseconfig")) {
        import.notes.push(Note::kept(here.path(), "inherited fields are included"));
    }
    for (field, text) in dropped {
        if let Some(here) = chain.get(field) {
            import.dropped(here, text);
        }
    }
}

/// An instance, followed by the configs that it inherits from, nearest first.
pub(super) struct Chain<'l, 'a> {
    pub(super) levels: Vec<Vec<&'l Leaf<'a>>>,
}

/// The most configs in a chain, and the most fields in each.
const MOST_LEVELS: usize = 10;
const MOST_FIELDS: usize = 100;

impl<'l, 'a> Chain<'l, 'a> {
    /// The chain up to its first problem.
    pub(super) fn new(
        all: &[&'l Leaves<'a>],
        module: &str,
        name: &str,
        problems: &Problems,
    ) -> Self {
        let mut chain = Self { levels: Vec::new() };
        problems.ok(chain.fill(all, module, name));
        chain
    }

    fn fill(&mut self, all: &[&'l Leaves<'a>], module: &str, name: &str) -> Result<(), Problem> {
        let level = |shared: bool, name: &str| -> Result<Vec<&'l Leaf<'a>>, Problem> {
            let level: Vec<_> =
                all.iter().flat_map(|leaves| leaves.level(module, shared, name)).collect();
            match level.get(MOST_FIELDS) {
                Some(leaf) => {
                    Err(leaf.here.problem(format_args!("more than {MOST_FIELDS} fields")))
                }
                None => Ok(level),
            }
        };
        self.levels.push(level(false, name)?);
        let mut seen: Vec<String> = Vec::new();
        loop {
            let last = self.levels.last().and_then(|level| find(level, "baseconfig"));
            let base = last.map_or(Ok("default".to_owned()), Cursor::scalar)?;
            let inherited = level(true, &base)?;
            match last {
                Some(here) if inherited.is_empty() => {
                    let problem =
                        here.problem(format_args!("unknown config `{}`", Truncated(&base)));
                    return Err(problem.help("the process does not start without this config"));
                }
                Some(here) if seen.contains(&base) || seen.len() == MOST_LEVELS => {
                    let message =
                        format!("inherits from itself, or from more than {MOST_LEVELS} configs");
                    return Err(here.problem(message));
                }
                None if inherited.is_empty() || seen.contains(&base) => return Ok(()),
                _ => {}
            }
            seen.push(base);
            self.levels.push(inherited);
        }
    }

    /// Reports unknown fields, each once however many instances inherit it.
    pub(super) fn unknown(
        &self,
        known: &[&str],
        seen: &mut HashSet<TextSpan>,
        import: &mut Import<'_>,
    ) {
        for leaf in self.levels.iter().flatten() {
            if seen.insert(leaf.here.node.span)
                && !known.iter().any(|known| leaves::plain(known) == leaf.field)
            {
                let name = leaf.here.path().rsplit('.').next().unwrap_or_default();
                import.unknown(name, &leaf.here, known);
            }
        }
    }

    /// The nearest value of a field.
    pub(super) fn get(&self, field: &str) -> Option<&'l Cursor<'a>> {
        self.levels.iter().find_map(|level| find(level, field))
    }

    /// The waits, from the nearest level with a `waitDuration`. As in resilience4j, growth and jitter of nearer levels are
    /// ignored, and that level inherits everything but the factor of the jitter.
    fn backoff(&self, import: &mut Import<'_>) -> Backoff {
        let from = self.levels.iter().position(|level| find(level, "waitduration").is_some());
        let ignored = &self.levels[..from.unwrap_or(self.levels.len())];
        for leaf in ignored.iter().flatten() {
            if leaf.field.starts_with("exponential")
                || leaf.field.starts_with("enable")
                || leaf.field == "randomizedwaitfactor"
            {
                let message = "has no effect without a waitDuration beside it";
                import.finding(&SILENTLY_CLAMPED, &leaf.here, message, "add waitDuration here");
                import.dropped(&leaf.here, "ignored without a waitDuration beside it");
            }
        }
        let Some(from) = from else {
            import
                .notes
                .push(Note::kept("waitDuration", "backoff.base = 500ms by default, constant"));
            return constant(WAIT).jitter(Jitter::None);
        };
        let own = |field: &str| find(&self.levels[from], field);
        let inherited =
            |field: &str| self.levels[from..].iter().find_map(|level| find(level, field));
        let wait = match own("waitduration") {
            Some(here) => wait(here, import),
            None => WAIT,
        };
        let flag = |field: &str, import: &mut Import<'_>, ours: &'static str| {
            let here = inherited(field);
            if let Some(here) = here {
                import.kept(here, ours, ours);
            }
            import.problems.or(true, here.map_or(Ok(false), Cursor::boolean))
        };
        let grows = flag("enableexponentialbackoff", import, "backoff.growth");
        let random = flag("enablerandomizedwait", import, "backoff.jitter");
        let jitter =
            if random { factor(own("randomizedwaitfactor"), import) } else { Jitter::None };
        // ±100% is anything from zero to twice the wait.
        let base = if jitter == Jitter::Full { (wait * 2).min(LONGEST_DURATION) } else { wait };
        if !grows {
            let above = if let Jitter::Around(ratio) = jitter {
                Span::from_nanos_f64((base.as_nanos_f64() * ratio).ceil())
            } else {
                Span::ZERO
            };
            let cap = (base + above).min(LONGEST_DURATION);
            return Backoff { cap, ..constant(base).jitter(jitter) };
        }
        let multiplier = inherited("exponentialbackoffmultiplier");
        let growth = multiplier.map_or(Ok(MULTIPLIER), |here| here.number());
        let growth = import.problems.or(MULTIPLIER, growth);
        if let Some(here) = multiplier {
            import.kept(here, "backoff.growth.exponential", "backoff.growth.exponential");
        }
        let cap = cap(inherited("exponentialmaxwaitduration"), multiplier.is_some(), import);
        let clip = matches!(jitter, Jitter::Around(_));
        if clip && cap != LONGEST_DURATION {
            let text = "backoff.clip: the draw is capped but not the growth, so later waits are exactly the cap there";
            import.notes.push(Note::approximated("exponentialMaxWaitDuration", text));
        }
        Backoff { growth: Growth::Exponential(growth), base: base.min(cap), cap, jitter, clip }
    }
}

fn wait(here: &Cursor<'_>, import: &mut Import<'_>) -> Span {
    let exact = import.problems.or(WAIT, duration(here));
    let whole = exact - exact % Span::MILLISECOND;
    if whole.is_zero() {
        import.approximated(here, "backoff.base", "backoff.base = 1ns, the least of a policy");
    } else if whole == exact {
        import.kept(here, "backoff.base", "backoff.base");
    } else {
        import.approximated(here, "backoff.base", "backoff.base, in whole milliseconds");
    }
    whole.max(SHORTEST_DURATION)
}

fn factor(here: Option<&Cursor<'_>>, import: &mut Import<'_>) -> Jitter {
    let Some(here) = here else { return Jitter::Around(RANDOM) };
    import.kept(here, "backoff.jitter", "backoff.jitter");
    let ratio = here.number().and_then(|ratio| match ratio {
        0.0..=1.0 => Ok(ratio),
        _ => Err(here.problem(format_args!("must be from 0 to 1, but is {ratio}"))),
    });
    match import.problems.or(RANDOM, ratio) {
        1.0 => Jitter::Full,
        ratio => Jitter::Around(ratio),
    }
}

fn cap(here: Option<&Cursor<'_>>, counts: bool, import: &mut Import<'_>) -> Span {
    let Some(here) = here else {
        let text = "backoff.cap = 366 days: no cap is set";
        import.notes.push(Note::approximated("exponentialMaxWaitDuration", text));
        return LONGEST_DURATION;
    };
    let cap = import.problems.or(LONGEST_DURATION, duration(here));
    if !counts {
        let message = "has no effect without exponentialBackoffMultiplier";
        import.finding(
            &SILENTLY_CLAMPED,
            here,
            message,
            "add exponentialBackoffMultiplier, 1.5 by default",
        );
        import.dropped(here, "ignored without exponentialBackoffMultiplier");
        return LONGEST_DURATION;
    }
    import.kept(here, "backoff.cap", "backoff.cap");
    cap.max(SHORTEST_DURATION)
}

/// The last value in a level wins, as the last document of a file does.
pub(super) fn find<'l, 'a>(level: &[&'l Leaf<'a>], field: &str) -> Option<&'l Cursor<'a>> {
    level.iter().rfind(|leaf| leaf.field == field).map(|leaf| &leaf.here)
}
