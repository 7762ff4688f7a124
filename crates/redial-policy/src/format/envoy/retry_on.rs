//! Envoy's retry conditions, which Istio uses too.

use redial_core::decide::{Class, RetryOn};

use super::super::import::Import;
use super::super::system::Advice;
use crate::finding::reading::{REFUSED_AT_START, UNKNOWN_RETRY_ON};
use crate::format::Note;
use crate::source::Problem;
use crate::suggest::did_you_mean;
use crate::tree::Cursor;

/// The failures before a response, which Envoy calls `reset`.
pub(in crate::format) const TRANSPORT: [Class; 4] =
    [Class::Connect, Class::Refused, Class::Reset, Class::Timeout];

/// What these classes include besides.
pub(in crate::format) const TRANSPORT_NOTE: &str =
    "408 and 425 are retried here too, as a timeout and a refusal";

/// A condition, its counterpart in a policy, and the difference between the two.
struct Word {
    token: &'static str,
    classes: &'static [Class],
    codes: &'static [u16],
    fidelity: Fidelity,
}

enum Fidelity {
    Exact,
    /// With this difference.
    Approximate(&'static str),
    /// For this reason.
    Unsupported(&'static str),
}

const fn word(
    token: &'static str,
    classes: &'static [Class],
    codes: &'static [u16],
    fidelity: Fidelity,
) -> Word {
    Word { token, classes, codes, fidelity }
}

const LISTED: &str = "retriable-status-codes";

/// gRPC codes by token.
pub(in crate::format) const GRPC: [(&str, u16); 5] = [
    ("cancelled", 1),
    ("deadline-exceeded", 4),
    ("internal", 13),
    ("resource-exhausted", 8),
    ("unavailable", 14),
];

const IN_HEADERS: Fidelity =
    Fidelity::Approximate("the gRPC code; Envoy sees only codes in response headers");

const WORDS: [Word; 16] = [
    word(
        "5xx",
        &[
            Class::Connect,
            Class::Refused,
            Class::Reset,
            Class::Timeout,
            Class::Overloaded,
            Class::ServerError,
        ],
        &[],
        Fidelity::Approximate(
            "500, 502, 503, 504 and failures before a response; 501 and 505 to 599 are not retried here, 408 and 425 are",
        ),
    ),
    word("gateway-error", &TRANSPORT, &[502, 503, 504], Fidelity::Approximate(TRANSPORT_NOTE)),
    word("reset", &TRANSPORT, &[], Fidelity::Approximate(TRANSPORT_NOTE)),
    word(
        "reset-before-request",
        &[Class::Connect],
        &[],
        Fidelity::Approximate("requests that were not sent; here only if there was no connection"),
    ),
    word("connect-failure", &[Class::Connect], &[], Fidelity::Exact),
    word(
        "refused-stream",
        &[Class::Refused],
        &[],
        Fidelity::Approximate("425 counts as a refusal here too"),
    ),
    word("retriable-4xx", &[], &[409], Fidelity::Exact),
    word(
        "envoy-ratelimited",
        &[Class::Throttled],
        &[],
        Fidelity::Approximate("any 429, not only that of Envoy's own rate limit"),
    ),
    word(LISTED, &[], &[], Fidelity::Exact),
    word(
        "retriable-headers",
        &[],
        &[],
        Fidelity::Unsupported("a policy does not match response headers"),
    ),
    word(
        "http3-post-connect-failure",
        &[],
        &[],
        Fidelity::Unsupported("a policy does not distinguish HTTP/3"),
    ),
    word(GRPC[0].0, &[], &[GRPC[0].1], IN_HEADERS),
    word(GRPC[1].0, &[], &[GRPC[1].1], IN_HEADERS),
    word(GRPC[2].0, &[], &[GRPC[2].1], IN_HEADERS),
    word(GRPC[3].0, &[], &[GRPC[3].1], IN_HEADERS),
    word(GRPC[4].0, &[], &[GRPC[4].1], IN_HEADERS),
];

/// What to retry instead of failures with an unknown outcome.
pub(in crate::format) const BEFORE_PROCESSING: &str =
    "retry only failures before processing: connect-failure, refused-stream";

/// What `5xx` means.
pub(in crate::format) fn any_5xx() -> RetryOn {
    WORDS[0].classes.iter().fold(RetryOn::nothing(), |on, class| on.class(*class))
}

/// More than all tokens and statuses together.
pub(in crate::format) const MOST_TOKENS: usize = 1000;

/// The system that a list of conditions is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::format) enum Dialect {
    /// Ignores unknown conditions; statuses are in another field.
    Envoy,
    /// Rejects unknown conditions; statuses are conditions.
    Istio,
    /// Conditions and statuses are items of lists, and others are rejected.
    List,
}

/// The meaning of a list of tokens; `listed` are Envoy's statuses.
pub(in crate::format) fn read(
    here: &Cursor<'_>,
    listed: Option<&Cursor<'_>>,
    dialect: Dialect,
    import: &mut Import<'_>,
) -> RetryOn {
    let mut retry_on = RetryOn::nothing();
    let (mut kept, mut lists) = (Vec::new(), false);
    import.places.put("retry_on", import.place(here));
    let Some(text) = import.problems.ok(here.scalar()) else { return retry_on };
    if dialect == Dialect::Istio {
        refuse_spaces(here, &text, import);
    }
    let tokens = text.split(',').map(str::trim).filter(|token| !token.is_empty());
    for token in tokens.take(MOST_TOKENS) {
        let code = token.parse().ok().filter(|code| dialect == Dialect::Istio && is_named(*code));
        if let Some(code) = code {
            retry_on = retry_on.code(import.problems.or(code, failure(here, code)));
            kept.push(token);
            continue;
        }
        match condition(token, retry_on.clone(), here, import) {
            Some((more, is_exact)) => {
                retry_on = more;
                lists |= token == LISTED;
                kept.extend(is_exact.then_some(token));
            }
            None => unknown(here, token, dialect, import),
        }
    }
    if !kept.is_empty() {
        import.notes.push(Note::kept(here.path(), format!("retry_on: {}", kept.join(", "))));
    }
    let Some(listed) = listed else { return retry_on };
    if lists {
        import.problems.ok(listed.list());
        for code in listed.items() {
            let status = code.count(100..=599).and_then(|status| failure(&code, status as u16));
            retry_on = retry_on.code(import.problems.or(503, status));
        }
        import.notes.push(Note::kept(listed.path(), "codes in retry_on"));
    } else {
        import.dropped(listed, format!("Envoy ignores it without `{LISTED}` in retry_on"));
    }
    retry_on
}

/// Adds what a condition means, and whether it means exactly that; `None`, if it is unknown.
fn condition(
    token: &str,
    on: RetryOn,
    here: &Cursor<'_>,
    import: &mut Import<'_>,
) -> Option<(RetryOn, bool)> {
    let word = WORDS.iter().find(|word| word.token == token)?;
    let on = word.classes.iter().fold(on, |all, class| all.class(*class));
    let on = word.codes.iter().fold(on, |all, code| all.code(*code));
    match word.fidelity {
        Fidelity::Exact => return Some((on, true)),
        Fidelity::Approximate(what) => {
            import.notes.push(Note::approximated(here.path(), format!("`{token}`: {what}")));
        }
        Fidelity::Unsupported(why) => import.dropped(here, format!("`{token}`: {why}")),
    }
    Some((on, false))
}

/// The meaning of conditions and statuses in lists of their own, as systems that configure Envoy have them.
pub(in crate::format) fn read_lists(
    conditions: Option<&Cursor<'_>>,
    statuses: Option<&Cursor<'_>>,
    needs_word: bool,
    import: &mut Import<'_>,
) -> RetryOn {
    let (mut on, mut lists) = (RetryOn::nothing(), !needs_word);
    if let Some(conditions) = conditions {
        import.kept(conditions, "retry_on", "conditions in retry_on");
        import.problems.ok(conditions.list());
        for here in conditions.items().take(MOST_TOKENS) {
            let Some(token) = import.problems.ok(here.scalar()) else { continue };
            lists |= token == LISTED;
            match condition(&token, on.clone(), &here, import) {
                Some((more, _)) => on = more,
                None => unknown(&here, &token, Dialect::List, import),
            }
        }
    }
    let Some(statuses) = statuses else { return on };
    if !lists {
        import.dropped(statuses, format!("Envoy ignores it without `{LISTED}`"));
        return on;
    }
    if conditions.is_none() {
        import.places.put("retry_on", import.place(statuses));
    }
    import.notes.push(Note::kept(statuses.path(), "codes in retry_on"));
    import.problems.ok(statuses.list());
    statuses.items().take(MOST_TOKENS).fold(on, |on, code| {
        let status = code.count(100..=599).and_then(|status| failure(&code, status as u16));
        on.code(import.problems.or(503, status))
    })
}

/// A status that can be a failure. A policy never repeats a success, so that it would be lost silently.
fn failure(here: &Cursor<'_>, status: u16) -> Result<u16, Problem> {
    if status >= 400 {
        return Ok(status);
    }
    let problem =
        here.problem(format_args!("{status} is not a failure, and is never retried here"));
    Err(problem.help("list statuses from 400 to 599"))
}

/// Whether Go's `net/http`, and with it Istio, has a name for this status.
pub(in crate::format) fn is_named(status: u16) -> bool {
    matches!(
        status,
        100..=103 | 200..=208 | 226 | 300..=305 | 307 | 308 | 400..=418 | 421..=426 | 428 | 429 | 431
            | 451 | 500..=508 | 510 | 511
    )
}

fn refuse_spaces(here: &Cursor<'_>, text: &str, import: &mut Import<'_>) {
    let padded = |word: &str| word.is_empty() || word.trim() != word;
    if !text.is_empty() && text.split(',').any(padded) {
        let message = "has an empty word or a space beside a comma, so Istio rejects the object";
        import.finding(&REFUSED_AT_START, here, message, "separate the words by single commas");
    }
}

fn unknown(here: &Cursor<'_>, token: &str, dialect: Dialect, import: &mut Import<'_>) {
    let shown = crate::tree::Truncated(token);
    let effect = match dialect {
        Dialect::Envoy => "is ignored",
        Dialect::Istio => "makes Istio reject the object",
        Dialect::List => "is rejected",
    };
    let message = format!("{}: unknown condition `{shown}` {effect}", here.path());
    let known = WORDS.iter().map(|word| word.token);
    let help = did_you_mean(token, known.clone())
        .unwrap_or_else(|| format!("known conditions: {}", known.collect::<Vec<_>>().join(", ")));
    let (place, whole) = (import.place_of_word(here, token), import.places.whole());
    import.findings.push(UNKNOWN_RETRY_ON.finding(place, whole, message, help));
    import.dropped(here, format!("unknown condition `{shown}`"));
}

/// What to add to the advice not to retry these statuses: one of Envoy's words stands for 409 alone.
pub(in crate::format) fn client_errors(codes: &[u16]) -> &'static str {
    if codes.contains(&409) {
        " (`retriable-4xx` is 409); of 4xx, only 408, 425 and 429 can succeed later"
    } else {
        (Advice::NONE.client_errors)(codes)
    }
}

/// A `retry_on` list as Envoy's conditions.
pub(in crate::format) struct Conditions {
    pub(in crate::format) tokens: Vec<&'static str>,
    /// HTTP statuses, ascending.
    pub(in crate::format) codes: Vec<u16>,
}

/// The HTTP statuses of a class.
pub(in crate::format) fn statuses(class: Class) -> &'static [u16] {
    match class {
        Class::Timeout => &[408],
        Class::Refused => &[425],
        Class::Throttled => &[429],
        Class::ServerError => &[500, 502, 504],
        Class::Overloaded => &[503],
        _ => &[],
    }
}

/// The HTTP statuses of a list, by class and by number, ascending.
pub(in crate::format) fn all_statuses(retry_on: &RetryOn) -> Vec<u16> {
    let by_class = retry_on.classes().flat_map(|class| statuses(class).iter().copied());
    let by_number = retry_on.codes().iter().copied().filter(|code| *code >= 100);
    let mut codes: Vec<u16> = by_class.chain(by_number).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// The conditions for a list, without conditions that would retry more than the list.
pub(in crate::format) fn write(retry_on: &RetryOn, notes: &mut Vec<Note>) -> Conditions {
    let mut tokens = Vec::new();
    if TRANSPORT.iter().all(|class| retry_on.has(*class)) {
        tokens.push("reset");
    } else {
        for (class, token) in
            [(Class::Connect, "connect-failure"), (Class::Refused, "refused-stream")]
        {
            tokens.extend(retry_on.has(class).then_some(token));
        }
        for class in [Class::Reset, Class::Timeout].into_iter().filter(|class| retry_on.has(*class))
        {
            let why = "Envoy has one condition for failed, broken and timed-out connections, and \
                       not all of these are listed";
            notes.push(Note::dropped("retry_on", format!("{}: {why}", class.name())));
        }
    }
    for code in retry_on.codes().iter().filter(|code| **code < 100) {
        match GRPC.iter().find(|(_, known)| known == code) {
            Some((token, _)) => tokens.push(token),
            None => notes.push(Note::dropped(
                "retry_on",
                format!("{code}: Envoy has no condition for this gRPC code"),
            )),
        }
    }
    if retry_on.classes().any(|class| !statuses(class).is_empty()) {
        let why = "classes of responses become HTTP statuses; gRPC codes must be listed by number";
        notes.push(Note::approximated("retry_on", why));
    }
    let mut codes = all_statuses(retry_on);
    let successes = codes.partition_point(|code| *code < 400);
    if successes > 0 {
        codes.drain(..successes);
        notes.push(Note::dropped("retry_on", "statuses below 400, which are never retried here"));
    }
    if !tokens.is_empty() || !codes.is_empty() {
        notes.push(Note::kept("retry_on", "failures before a response, and statuses"));
    }
    Conditions { tokens, codes }
}
