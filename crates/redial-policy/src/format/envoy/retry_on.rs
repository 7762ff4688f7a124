//! Envoy's words for what it repeats; Istio has them too.

use redial_core::decide::{Class, RetryOn};

use super::super::account::Account;
use crate::found::Note;
use crate::near::did_you_mean;
use crate::rules::reading::UNKNOWN_RETRY_ON;
use crate::source::Problem;
use crate::tree::Here;

/// What goes wrong before there is an answer. Envoy has one word for all of it, `reset`.
pub(in crate::format) const WIRE: [Class; 4] =
    [Class::Connect, Class::Refused, Class::Reset, Class::Timeout];

/// What these classes have besides.
pub(in crate::format) const WIRE_TOO: &str =
    "408 and 425 are repeated here too, as a timeout and a refusal";

/// A word, what it stands for here, and what is not the same about that.
struct Word {
    token: &'static str,
    classes: &'static [Class],
    codes: &'static [u16],
    differs: Differs,
}

enum Differs {
    Not,
    /// In this.
    In(&'static str),
    /// We have nothing like it.
    Wholly(&'static str),
}

const fn word(
    token: &'static str,
    classes: &'static [Class],
    codes: &'static [u16],
    differs: Differs,
) -> Word {
    Word { token, classes, codes, differs }
}

const LISTED: &str = "retriable-status-codes";

/// gRPC's codes by the tokens for them.
pub(in crate::format) const GRPC: [(&str, u16); 5] = [
    ("cancelled", 1),
    ("deadline-exceeded", 4),
    ("internal", 13),
    ("resource-exhausted", 8),
    ("unavailable", 14),
];

const IN_HEADERS: Differs =
    Differs::In("the code of gRPC; Envoy sees only one that comes in place of a response");

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
        Differs::In(
            "500, 502, 503, 504 and no answer at all; 501 and 505 to 599 are not repeated here, 408 and 425 are",
        ),
    ),
    word("gateway-error", &WIRE, &[502, 503, 504], Differs::In(WIRE_TOO)),
    word("reset", &WIRE, &[], Differs::In(WIRE_TOO)),
    word(
        "reset-before-request",
        &[Class::Connect],
        &[],
        Differs::In("requests that were not sent, of which we know those without a connection"),
    ),
    word("connect-failure", &[Class::Connect], &[], Differs::Not),
    word("refused-stream", &[Class::Refused], &[], Differs::In("425 is a refusal here too")),
    word("retriable-4xx", &[], &[409], Differs::Not),
    word(
        "envoy-ratelimited",
        &[Class::Throttled],
        &[],
        Differs::In("any 429, not only those of Envoy's own rate limit"),
    ),
    word(LISTED, &[], &[], Differs::Not),
    word("retriable-headers", &[], &[], Differs::Wholly("we do not look at headers")),
    word("http3-post-connect-failure", &[], &[], Differs::Wholly("we do not know of HTTP/3")),
    word(GRPC[0].0, &[], &[GRPC[0].1], IN_HEADERS),
    word(GRPC[1].0, &[], &[GRPC[1].1], IN_HEADERS),
    word(GRPC[2].0, &[], &[GRPC[2].1], IN_HEADERS),
    word(GRPC[3].0, &[], &[GRPC[3].1], IN_HEADERS),
    word(GRPC[4].0, &[], &[GRPC[4].1], IN_HEADERS),
];

/// There are fewer words and statuses than this.
pub(in crate::format) const MOST_TOKENS: usize = 1000;

/// What a list of words means. Istio takes status codes as words; Envoy lists them elsewhere, in `listed`.
pub(in crate::format) fn read(
    here: &Here<'_>,
    listed: Option<&Here<'_>>,
    takes_codes: bool,
    account: &mut Account<'_>,
) -> Result<RetryOn, Problem> {
    let mut retry_on = RetryOn::nothing();
    let (mut kept, mut lists) = (Vec::new(), false);
    account.places.put("retry_on", account.place(here));
    let text = here.word()?;
    let tokens = text.split(',').map(str::trim).filter(|token| !token.is_empty());
    for token in tokens.take(MOST_TOKENS) {
        let code = token.parse().ok().filter(|code| takes_codes && (100..600).contains(code));
        if let Some(code) = code {
            retry_on = retry_on.code(code);
            kept.push(token);
            continue;
        }
        let Some(word) = WORDS.iter().find(|word| word.token == token) else {
            unknown(here, token, account);
            continue;
        };
        retry_on = word.classes.iter().fold(retry_on, |all, class| all.class(*class));
        retry_on = word.codes.iter().fold(retry_on, |all, code| all.code(*code));
        lists |= token == LISTED;
        match word.differs {
            Differs::Not => kept.push(token),
            Differs::In(what) => {
                account.notes.push(Note::approximated(here.path(), format!("`{token}`: {what}")));
            }
            Differs::Wholly(why) => account.dropped(here, format!("`{token}`: {why}")),
        }
    }
    if !kept.is_empty() {
        account.notes.push(Note::kept(here.path(), format!("retry_on, for {}", kept.join(", "))));
    }
    let Some(listed) = listed else { return Ok(retry_on) };
    if lists {
        for code in listed.list()? {
            retry_on = retry_on.code(code.count(100..=599)? as u16);
        }
        account.notes.push(Note::kept(listed.path(), "codes in retry_on"));
    } else {
        account.dropped(listed, format!("Envoy ignores it unless it retries on `{LISTED}`"));
    }
    Ok(retry_on)
}

fn unknown(here: &Here<'_>, token: &str, account: &mut Account<'_>) {
    let shown = crate::tree::Short(token);
    let message = format!("{}: no condition is called `{shown}`, so it is ignored", here.path());
    let known = WORDS.iter().map(|word| word.token);
    let help = did_you_mean(token, known.clone())
        .unwrap_or_else(|| format!("there are {}", known.collect::<Vec<_>>().join(", ")));
    let (place, whole) = (account.place_of_word(here, token), account.places.whole());
    account.findings.push(UNKNOWN_RETRY_ON.finding(place, whole, message, help));
    account.dropped(here, format!("`{shown}` is not known"));
}

/// Our list in their words.
pub(in crate::format) struct Said {
    pub(in crate::format) tokens: Vec<&'static str>,
    /// Statuses of HTTP, ascending.
    pub(in crate::format) codes: Vec<u16>,
}

/// The statuses of HTTP that a class stands for.
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

/// The statuses of HTTP that the list stands for, by class and by number, ascending.
pub(in crate::format) fn all_statuses(retry_on: &RetryOn) -> Vec<u16> {
    let by_class = retry_on.classes().flat_map(|class| statuses(class).iter().copied());
    let by_number = retry_on.codes().iter().copied().filter(|code| *code >= 100);
    let mut codes: Vec<u16> = by_class.chain(by_number).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// The words for a list. What would also repeat something that the list does not have is left out.
pub(in crate::format) fn write(retry_on: &RetryOn, notes: &mut Vec<Note>) -> Said {
    let mut tokens = Vec::new();
    if WIRE.iter().all(|class| retry_on.has(*class)) {
        tokens.push("reset");
    } else {
        for (class, token) in
            [(Class::Connect, "connect-failure"), (Class::Refused, "refused-stream")]
        {
            tokens.extend(retry_on.has(class).then_some(token));
        }
        for class in [Class::Reset, Class::Timeout].into_iter().filter(|class| retry_on.has(*class))
        {
            let why = "Envoy has one word for connections that fail, break or time out, and not \
                       all of these are listed";
            notes.push(Note::dropped("retry_on", format!("{}: {why}", class.name())));
        }
    }
    for code in retry_on.codes().iter().filter(|code| **code < 100) {
        match GRPC.iter().find(|(_, known)| known == code) {
            Some((token, _)) => tokens.push(token),
            None => notes.push(Note::dropped(
                "retry_on",
                format!("{code}: Envoy has no word for this code of gRPC"),
            )),
        }
    }
    if retry_on.classes().any(|class| !statuses(class).is_empty()) {
        let why =
            "classes of answers as statuses of HTTP; a code of gRPC must be listed by its number";
        notes.push(Note::approximated("retry_on", why));
    }
    let codes = all_statuses(retry_on);
    if !tokens.is_empty() || !codes.is_empty() {
        notes.push(Note::kept("retry_on", "what fails before there is an answer, and statuses"));
    }
    Said { tokens, codes }
}
