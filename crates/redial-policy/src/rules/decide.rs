//! Is it worth repeating, and is it safe to?

use std::collections::BTreeSet;

use redial_core::Policy;
use redial_core::decide::{Class, Failure, GRPC_STATUSES, Outcome, Reach};

use super::{Case, Rule, Said};
use crate::file::Route;
use crate::finding::Severity;
use crate::format::Format;
use crate::found::Found;

/// The request itself is wrong, and stays wrong.
pub static RETRIES_CLIENT_ERRORS: Rule = Rule {
    name: "retries-client-errors",
    severity: Severity::Error,
    about: "an answer that says the request is wrong is repeated: it stays wrong",
    origin: "seed 003, its table of statuses and the first line of its checklist; seed 000",
    check: Some(retries_client_errors),
};

/// A 500 to a write that nothing makes safe.
pub static RETRIES_500_UNSAFE: Rule = Rule {
    name: "retries-500-unsafe",
    severity: Severity::Error,
    about: "a 500 is repeated for requests that may have been done and carry no key",
    origin: "seed 003, payment exercise; seed 004, idempotency",
    check: Some(retries_500_unsafe),
};

/// A write whose fate nobody knows, and nothing makes safe.
pub static UNSAFE_WITHOUT_KEY: Rule = Rule {
    name: "unsafe-without-key",
    severity: Severity::Error,
    about: "requests that are not idempotent carry no key, and failures after which they may have been done are repeated",
    origin: "seed 003, quiz question 4; seed 004, idempotency; Istio's issue 50506",
    check: Some(unsafe_without_key),
};

/// The statuses of gRPC that blame the request: repeating it gets the same answer.
const GRPC_CLIENT_ERRORS: [u16; 8] = [3, 5, 6, 7, 9, 11, 12, 16];

fn retries_client_errors(case: &Case<'_>) -> Option<Said> {
    let codes = case.retrying()?.retry_on().codes().iter();
    let codes = codes.copied().filter(|code| is_client_error(*code));
    let wrong: Vec<String> = codes.map(status).collect();
    if wrong.is_empty() {
        return None;
    }
    let list = wrong.join(", ");
    let message = format!(
        "{list} will be repeated: the server understood the request and refused it, so every retry gets the same answer"
    );
    let retry_on = case.words().name("retry_on").unwrap_or("the list");
    let (has_conflict, format) = (wrong.iter().any(|code| code == "409"), case.found.format);
    let help = match format {
        Format::Grpc => format!("take {list} out of `{retry_on}`"),
        // A word of theirs stands for a single status.
        Format::Envoy | Format::Istio if has_conflict => format!(
            "take {list} out of `{retry_on}` (`retriable-4xx` is 409); of 4xx only 408, 425 and 429 can pass"
        ),
        _ => format!("take {list} out of `{retry_on}`; of 4xx only 408, 425 and 429 can pass"),
    };
    Some(Said::new("retry_on", message, help))
}

fn is_client_error(code: u16) -> bool {
    let http = (400..500).contains(&code) && !matches!(code, 408 | 425 | 429);
    http || GRPC_CLIENT_ERRORS.contains(&code)
}

/// A status as its system writes it.
fn status(code: u16) -> String {
    GRPC_STATUSES.get(usize::from(code)).map_or_else(|| code.to_string(), |name| (*name).to_owned())
}

/// The failures after which nobody knows what the server did, as this policy's `retry_on` names them.
fn repeated_unknowns(policy: &Policy) -> Vec<String> {
    let retry_on = policy.retry_on();
    let classes = [Class::Reset, Class::Timeout, Class::Overloaded, Class::ServerError];
    let named = classes.into_iter().filter(|class| retry_on.has(*class));
    let unknown = |outcome| {
        let Outcome::Failure(Failure { reach, class, .. }) = outcome else { return false };
        reach == Reach::Unknown && class != Class::Permanent
    };
    let codes = retry_on.codes().iter().copied().filter(|code| match *code {
        grpc @ 1..=16 => unknown(Outcome::of_grpc(grpc, false)),
        http => unknown(Outcome::of_status(http)),
    });
    named.map(|class| class.name().to_owned()).chain(codes.map(status)).collect()
}

fn retries_500_unsafe(case: &Case<'_>) -> Option<Said> {
    let alone = repeated_unknowns(case.retrying()?) == ["500"];
    let requests = Requests::unsafe_ones(case).filter(|_| alone)?;
    Some(requests.without_key(case, "a 500", "take 500 out of what is repeated"))
}

fn unsafe_without_key(case: &Case<'_>) -> Option<Said> {
    let unknowns = repeated_unknowns(case.retrying()?);
    let more = unknowns.iter().any(|unknown| unknown != "500");
    let requests = Requests::unsafe_ones(case).filter(|_| more)?;
    let or = "repeat only what was not processed: connect, refused, throttled";
    Some(requests.without_key(case, &unknowns.join(", "), or))
}

/// Requests that must not be done twice.
struct Requests {
    /// "POST requests"
    what: String,
    /// Which route says so first.
    route: usize,
}

impl Requests {
    /// Those without a key; where nothing minds what is safe, also those of which nobody says what they are.
    fn unsafe_ones(case: &Case<'_>) -> Option<Self> {
        let Found { routes, minds_safety, format, .. } = case.found;
        // Ours is asked for retries that it then does not make; another system was told not to make them.
        if *minds_safety && *format != Format::Redial {
            return None;
        }
        let keyless = || routes.iter().enumerate().filter(|(_, route)| !route.key);
        let is_unsafe = |method: &str| match method {
            "GET" | "HEAD" | "OPTIONS" | "TRACE" | "QUERY" => false,
            "PUT" | "DELETE" => case.policy().requires_key(),
            _ => true,
        };
        let methods = keyless().flat_map(|(_, route)| &route.methods).map(String::as_str);
        let methods: BTreeSet<&str> = methods.filter(|method| is_unsafe(method)).collect();
        if !methods.is_empty() {
            let has_one = |route: &Route| route.methods.iter().any(|method| is_unsafe(method));
            let (route, _) = keyless().find(|(_, route)| has_one(route))?;
            let methods: Vec<&str> = methods.into_iter().collect();
            return Some(Self { what: format!("{} requests", methods.join(" and ")), route });
        }
        let any = routes.is_empty() || keyless().any(|(_, route)| route.methods.is_empty());
        let what = "requests of every method".to_owned();
        (any && !case.found.minds_safety).then_some(Self { what, route: 0 })
    }

    /// Others repeat such a request. Ours does not, which is no harm but a surprise.
    fn without_key(&self, case: &Case<'_>, failures: &str, or: &str) -> Said {
        let Self { what, route } = self;
        if case.found.minds_safety {
            let message = format!(
                "{what} carry no idempotency key, so Redial will not repeat them after {failures}: the server may \
                 have done the work, and the call fails once"
            );
            let help =
                format!("send an idempotency key and say `key = true` in the route, or {or}");
            let said = Said::new(format!("route[{route}]"), message, help);
            return said.at_most(Severity::Warning, true);
        }
        let message = format!(
            "{what} will be repeated after {failures}, and nothing says that they carry an idempotency key: the \
             server may have done the work, and then does it twice"
        );
        let help = format!(
            "send a key that the server knows, the same for every attempt, give these requests a route without \
             retries, or {or}"
        );
        Said::new("retry_on", message, help)
    }
}
