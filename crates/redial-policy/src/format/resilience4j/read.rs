use std::collections::HashSet;

use redial_core::schedule::{Backoff, Growth, Jitter};
use redial_core::{Draft, LONGEST, MS, Nanos};

use super::super::account::{Account, Around};
use super::super::{Format, constant};
use super::guards;
use super::leaves::{self, Leaf, Leaves, duration};
use super::{MULTIPLIER, RANDOM, WAIT};
use crate::file::Setting;
use crate::found::Note;
use crate::pile::{Document, Reading};
use crate::rules::reading::SILENTLY_CLAMPED;
use crate::source::{Problem, Span};
use crate::tree::{Here, Short};

pub(super) fn read(documents: &[Document], reading: &mut Reading) {
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

/// Every instance that is named here.
fn instances(
    document: &Document,
    all: &[&Leaves<'_>],
    named: &[Leaf<'_>],
    profile: Option<&str>,
    (seen, reading): (&mut HashSet<Span>, &mut Reading),
) {
    let mut done = HashSet::new();
    let of_retry = |leaf: &&Leaf<'_>| leaf.module == "retry";
    // Without instances, the default config still serves every instance that only the code names.
    let is_lonely = named.iter().filter(of_retry).all(|leaf| leaf.shared);
    let is_named = |leaf: &&Leaf<'_>| !leaf.shared || is_lonely && leaf.name == "default";
    for leaf in named.iter().filter(of_retry).filter(is_named) {
        if !done.insert(&leaf.name) {
            continue;
        }
        let name = profile.map_or(leaf.name.clone(), |profile| format!("{}@{profile}", leaf.name));
        if let Err(problem) = instance(document, (leaf, name), all, seen, reading) {
            reading.problems.push((document.source, problem));
        }
    }
}

fn instance(
    document: &Document,
    (leaf, name): (&Leaf<'_>, String),
    all: &[&Leaves<'_>],
    seen: &mut HashSet<Span>,
    reading: &mut Reading,
) -> Result<(), Problem> {
    let chain = Chain::new(all, "retry", &leaf.name)?;
    let mut account = Account::new(document, &leaf.here);
    let attempts = match chain.get("maxattempts") {
        Some(here) => {
            let help = "it counts attempts, the first one included; 1 turns retries off";
            account.attempts(here, 1).map_err(|problem| problem.help(help))?
        }
        None => {
            account.notes.push(Note::kept("maxAttempts", "attempts = 3, the default"));
            3
        }
    };
    let backoff = chain.backoff(&mut account)?;
    let draft = Draft::bare(attempts).backoff(backoff);
    conditions(&chain, &mut account);
    chain.unknown(&KNOWN, seen, &mut account);
    let mut setting = Setting::default();
    let draft = guards::join((all, &leaf.name), draft, &mut setting, seen, &mut account)?;
    let around = Around { format: Format::Resilience4j, name, routes: Vec::new(), setting };
    account.finish(draft, around, reading);
    Ok(())
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

/// What is retried is a matter of Java classes, of which we know nothing.
fn conditions(chain: &Chain<'_, '_>, account: &mut Account<'_>) {
    let mut says = false;
    for field in ["retryexceptions", "retryexceptionpredicate", "resultpredicate"] {
        if let Some(here) = chain.get(field) {
            says = true;
            let text = "classes of Java: everything transient stands for them";
            account.approximated(here, "retry_on", text);
        }
    }
    if !says {
        let text = "retry_on: every exception is retried there, and here everything transient";
        account.notes.push(Note::approximated("retryExceptions", text));
    }
    let dropped = [
        ("ignoreexceptions", "classes of Java, which a policy cannot name"),
        (
            "intervalbifunction",
            "a class of Java computes the waits; what is here is what the rest says",
        ),
        ("failaftermaxattempts", "about what the caller gets"),
        ("consumeresultbeforeretryattempt", "about what the caller gets"),
        ("eventconsumerbuffersize", "about metrics"),
    ];
    for here in chain.levels.iter().filter_map(|level| find(level, "baseconfig")) {
        account.notes.push(Note::kept(here.path(), "what it inherits is written out"));
    }
    for (field, text) in dropped {
        if let Some(here) = chain.get(field) {
            account.dropped(here, text);
        }
    }
}

/// An instance, then what it inherits from, nearest first.
pub(super) struct Chain<'l, 'a> {
    pub(super) levels: Vec<Vec<&'l Leaf<'a>>>,
}

/// How much can be inherited, and how many fields an instance can have.
const MOST_LEVELS: usize = 10;
const MOST_FIELDS: usize = 100;

impl<'l, 'a> Chain<'l, 'a> {
    pub(super) fn new(all: &[&'l Leaves<'a>], module: &str, name: &str) -> Result<Self, Problem> {
        let level = |shared: bool, name: &str| -> Result<Vec<&'l Leaf<'a>>, Problem> {
            let level: Vec<_> =
                all.iter().flat_map(|leaves| leaves.level(module, shared, name)).collect();
            match level.get(MOST_FIELDS) {
                Some(leaf) => Err(leaf.here.wrong(format_args!("more than {MOST_FIELDS} fields"))),
                None => Ok(level),
            }
        };
        let mut chain = Self { levels: vec![level(false, name)?] };
        let mut seen: Vec<String> = Vec::new();
        loop {
            let last = chain.levels.last().and_then(|level| find(level, "baseconfig"));
            let base = last.map_or(Ok("default".to_owned()), Here::word)?;
            let inherited = level(true, &base)?;
            match last {
                Some(here) if inherited.is_empty() => {
                    let problem = here.wrong(format_args!("there is no config `{}`", Short(&base)));
                    return Err(problem.help("the process does not start without it"));
                }
                Some(here) if seen.contains(&base) || seen.len() == MOST_LEVELS => {
                    let message =
                        format!("inherits from itself, or over more than {MOST_LEVELS} configs");
                    return Err(here.wrong(message));
                }
                None if inherited.is_empty() || seen.contains(&base) => return Ok(chain),
                _ => {}
            }
            seen.push(base);
            chain.levels.push(inherited);
        }
    }

    /// Fields that are none of these. A field is looked at once, however many inherit it.
    pub(super) fn unknown(
        &self,
        known: &[&str],
        seen: &mut HashSet<Span>,
        account: &mut Account<'_>,
    ) {
        for leaf in self.levels.iter().flatten() {
            if seen.insert(leaf.here.node.span)
                && !known.iter().any(|known| leaves::plain(known) == leaf.field)
            {
                let name = leaf.here.path().rsplit('.').next().unwrap_or_default();
                account.unknown(name, &leaf.here, known);
            }
        }
    }

    /// The nearest that says this.
    pub(super) fn get(&self, field: &str) -> Option<&'l Here<'a>> {
        self.levels.iter().find_map(|level| find(level, field))
    }

    /// The waits. They come from the nearest level that has a `waitDuration`; what nearer ones say about growth and jitter
    /// is ignored there, and inherited by it is all but the factor of the jitter.
    fn backoff(&self, account: &mut Account<'_>) -> Result<Backoff, Problem> {
        let from = self.levels.iter().position(|level| find(level, "waitduration").is_some());
        let ignored = &self.levels[..from.unwrap_or(self.levels.len())];
        for leaf in ignored.iter().flatten() {
            if leaf.field.starts_with("exponential")
                || leaf.field.starts_with("enable")
                || leaf.field == "randomizedwaitfactor"
            {
                let message = "has no effect, because no waitDuration stands beside it";
                account.finding(&SILENTLY_CLAMPED, &leaf.here, message, "add waitDuration here");
                account.dropped(&leaf.here, "ignored without a waitDuration beside it");
            }
        }
        let Some(from) = from else {
            account.notes.push(Note::kept(
                "waitDuration",
                "backoff.base = 500ms, the default, always the same",
            ));
            return Ok(constant(WAIT).jitter(Jitter::None));
        };
        let own = |field: &str| find(&self.levels[from], field);
        let inherited =
            |field: &str| self.levels[from..].iter().find_map(|level| find(level, field));
        let wait = match own("waitduration") {
            Some(here) => wait(here, account)?,
            None => WAIT,
        };
        let flag = |field: &str, account: &mut Account<'_>, ours: &'static str| {
            let here = inherited(field);
            let on = here.map_or(Ok(false), Here::yes)?;
            if let Some(here) = here {
                account.kept(here, ours, ours);
            }
            Ok::<bool, Problem>(on)
        };
        let grows = flag("enableexponentialbackoff", account, "backoff.growth")?;
        let random = flag("enablerandomizedwait", account, "backoff.jitter")?;
        let jitter =
            if random { factor(own("randomizedwaitfactor"), account)? } else { Jitter::None };
        // More or less by all of it is anything from nothing to twice as much.
        let base = if jitter == Jitter::Full { wait.saturating_mul(2).min(LONGEST) } else { wait };
        if !grows {
            let above = if let Jitter::Around(ratio) = jitter {
                (base as f64 * ratio).ceil() as Nanos
            } else {
                0
            };
            let cap = base.saturating_add(above).min(LONGEST);
            return Ok(Backoff { cap, ..constant(base).jitter(jitter) });
        }
        let multiplier = inherited("exponentialbackoffmultiplier");
        let growth = multiplier.map_or(Ok(MULTIPLIER), |here| here.number())?;
        if let Some(here) = multiplier {
            account.kept(here, "backoff.growth.exponential", "backoff.growth.exponential");
        }
        let cap = cap(inherited("exponentialmaxwaitduration"), multiplier.is_some(), account)?;
        let clip = matches!(jitter, Jitter::Around(_));
        if clip && cap != LONGEST {
            let text = "backoff.clip: it caps the draw but not the growth, so late waits are all exactly the cap there";
            account.notes.push(Note::approximated("exponentialMaxWaitDuration", text));
        }
        Ok(Backoff { growth: Growth::Exponential(growth), base: base.min(cap), cap, jitter, clip })
    }
}

fn wait(here: &Here<'_>, account: &mut Account<'_>) -> Result<Nanos, Problem> {
    let exact = duration(here)?;
    match exact / MS * MS {
        0 => {
            account.approximated(here, "backoff.base", "backoff.base = 1ns, the shortest there is");
            Ok(1)
        }
        whole if whole == exact => {
            account.kept(here, "backoff.base", "backoff.base");
            Ok(whole)
        }
        whole => {
            account.approximated(
                here,
                "backoff.base",
                "backoff.base: only whole milliseconds count",
            );
            Ok(whole)
        }
    }
}

fn factor(here: Option<&Here<'_>>, account: &mut Account<'_>) -> Result<Jitter, Problem> {
    let Some(here) = here else { return Ok(Jitter::Around(RANDOM)) };
    let ratio = here.number()?;
    if !(0.0..=1.0).contains(&ratio) {
        return Err(here.wrong(format_args!("must be from 0 to 1, but is {ratio}")));
    }
    account.kept(here, "backoff.jitter", "backoff.jitter");
    Ok(if ratio == 1.0 { Jitter::Full } else { Jitter::Around(ratio) })
}

fn cap(here: Option<&Here<'_>>, counts: bool, account: &mut Account<'_>) -> Result<Nanos, Problem> {
    let Some(here) = here else {
        let text = "backoff.cap = 366 days: there is none";
        account.notes.push(Note::approximated("exponentialMaxWaitDuration", text));
        return Ok(LONGEST);
    };
    let cap = duration(here)?;
    if !counts {
        let message = "has no effect without exponentialBackoffMultiplier";
        account.finding(
            &SILENTLY_CLAMPED,
            here,
            message,
            "add exponentialBackoffMultiplier, 1.5 if in doubt",
        );
        account.dropped(here, "ignored without exponentialBackoffMultiplier");
        return Ok(LONGEST);
    }
    account.kept(here, "backoff.cap", "backoff.cap");
    Ok(cap.max(1))
}

/// The last of a level wins, as the last document of a file does.
pub(super) fn find<'l, 'a>(level: &[&'l Leaf<'a>], field: &str) -> Option<&'l Here<'a>> {
    level.iter().rfind(|leaf| leaf.field == field).map(|leaf| &leaf.here)
}
