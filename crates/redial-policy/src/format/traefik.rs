//! Traefik's retry middleware is configured as an object of Kubernetes, in a file, or in labels of containers. It repeats
//! requests of which nothing was sent, and responses only if their statuses are listed.

use redial_core::decide::{Class, RetryOn};
use redial_core::schedule::{Backoff, Growth, Jitter};
use redial_core::{Draft, LONGEST_DURATION, Span};

use super::import::{Import, Metadata};
use super::kube;
use super::system::{Advice, System, Words};
use super::time;
use super::{Format, constant};
use crate::file::Setting;
use crate::format::{ConfigReading, Note};
use crate::source::Problem;
use crate::tree::{Cursor, Document, Value};

pub(super) static SYSTEM: System = System {
    name: "traefik",
    title: "Traefik",
    recognises: |node| middlewares(&Cursor::top(node)).next().is_some(),
    read,
    write: None,
    language: |_| None,
    words: Words::Names(&[
        ("attempts", "retry.attempts"),
        ("backoff.base", "retry.initialInterval"),
        ("retry_on", "retry.status"),
    ]),
    // Its reader knows every field.
    names: &[],
    is_own: |_| false,
    duration: |_, span| time::as_unit(span),
    counts_retries: false,
    advice: Advice { exempt: "remove `retryNonIdempotentMethod`", ..Advice::NONE },
};

const GROUPS: [&str; 2] = ["traefik.io/", "traefik.containo.us/"];
const MIDDLEWARE: &[&str] = &["Middleware"];

const FIELDS: [&str; 7] = [
    "attempts",
    "initialInterval",
    "timeout",
    "status",
    "maxRequestBodyBytes",
    "disableRetryOnNetworkError",
    "retryNonIdempotentMethod",
];

/// The retries of a document, with the names of their middlewares.
fn middlewares<'a>(top: &Cursor<'a>) -> impl Iterator<Item = (String, Cursor<'a>)> + use<'a> {
    let is_object = GROUPS.iter().any(|group| kube::is(top.node, group, MIDDLEWARE));
    let object = top.at(&["spec", "retry"]).filter(|_| is_object).map(|retry| {
        let name =
            top.at(&["metadata", "name"]).and_then(|name| name.node.text().map(str::to_owned));
        (name.unwrap_or_default(), retry)
    });
    let files = top.at(&["http", "middlewares"]);
    let files = files.iter().flat_map(Cursor::fields).filter_map(|(name, here)| {
        Some((name.to_owned(), here.get("retry").filter(|retry| retry.node.table().is_some())?))
    });
    object.into_iter().chain(files.collect::<Vec<_>>())
}

fn read(documents: &[Document], reading: &mut ConfigReading) {
    for document in documents {
        for (name, retry) in middlewares(&Cursor::top(&document.node)) {
            middleware(document, &name, &retry, reading);
        }
    }
}

fn middleware(document: &Document, name: &str, retry: &Cursor<'_>, reading: &mut ConfigReading) {
    let mut import = Import::new(document, retry);
    import.unknown_but(retry, &FIELDS);
    let attempts = match retry.get("attempts") {
        Some(here) => import.attempts(&here, 1, "it counts attempts, including the first"),
        None => {
            let problem = retry.problem("missing field `attempts`");
            import.problems.add(problem.help("Traefik rejects the middleware without it"));
            None
        }
    };
    let attempts = attempts.unwrap_or(2);
    let flag = |name: &str, import: &Import<'_>| {
        let here = retry.get(name);
        import.problems.or(false, here.map_or(Ok(false), |here| here.boolean()))
    };
    import.checks_safety = !flag("retryNonIdempotentMethod", &import);
    let mut on = RetryOn::nothing();
    if !flag("disableRetryOnNetworkError", &import) {
        on = on.class(Class::Connect);
    }
    if let Some(here) = retry.get("status") {
        import.kept(&here, "retry_on", "codes in retry_on");
        on = import.problems.or(on.clone(), statuses(&here, on));
    }
    let text = "connect in retry_on: a request of which anything was sent is not repeated";
    import.notes.push(Note::approximated(retry.path(), text));
    for name in ["timeout", "maxRequestBodyBytes"] {
        if let Some(here) = retry.get(name) {
            import.dropped(&here, "bounds when the last retry starts, or how much is kept for one");
        }
    }
    let draft = Draft::bare(attempts).retry_on(on).backoff(waits(retry, attempts, &mut import));
    let (name, setting) = (name.to_owned(), Setting::default());
    let metadata = Metadata { format: Format::Traefik, name, routes: Vec::new(), setting };
    import.finish(draft, metadata, reading);
}

/// Exponential from the initial interval to twice as much, ±50%; without one there are no waits.
fn waits(retry: &Cursor<'_>, attempts: u32, import: &mut Import<'_>) -> Backoff {
    let base = retry.get("initialInterval").map(|here| {
        import.kept(&here, "backoff", "backoff, which grows to twice the initial interval, ±50%");
        import.problems.or(Span::SECOND, interval(&here))
    });
    match base {
        Some(base) if !base.is_zero() => Backoff {
            growth: Growth::Exponential(2_f64.powf(1.0 / f64::from(attempts.max(2) - 1))),
            base,
            cap: (base * 3).min(LONGEST_DURATION),
            jitter: Jitter::Around(0.5),
            clip: false,
        },
        _ => {
            let text = "backoff.base = 1ns: without initialInterval, requests are repeated at once";
            import.notes.push(Note::approximated(retry.path(), text));
            constant(time::SHORTEST_DURATION).jitter(Jitter::None)
        }
    }
}

/// A Go duration, or a number of seconds.
fn interval(here: &Cursor<'_>) -> Result<Span, Problem> {
    let text = here.scalar()?;
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Span::from_secs(seconds.into())),
        Err(_) => time::units(here),
    }
}

/// `502`, `500-599`, a list of these, or several in one text.
fn statuses(here: &Cursor<'_>, on: RetryOn) -> Result<RetryOn, Problem> {
    let texts = match &here.node.value {
        Value::List(_) => here.items().map(|item| item.scalar()).collect::<Result<Vec<_>, _>>()?,
        _ => vec![here.scalar()?],
    };
    let ranges = texts.iter().flat_map(|text| text.split(',')).map(str::trim);
    ranges.filter(|range| !range.is_empty()).try_fold(on, |on, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let ends = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
        let ends = ends.filter(|(first, last)| (100..600).contains(first) && *last < 600);
        let (first, last) = ends
            .ok_or_else(|| here.problem(format_args!("must be statuses such as 502 or 500-599")))?;
        Ok((first.max(400)..=last).fold(on, RetryOn::code))
    })
}
