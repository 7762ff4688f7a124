//! Rules about what is retried: can it succeed, and is it safe?

use std::collections::BTreeSet;

use redial_core::Policy;
use redial_core::decide::{Class, Failure, GRPC_STATUSES, Outcome, Reach};

use super::{Case, Rule, Violation};
use crate::file::Route;
use crate::finding::Severity;
use crate::format::{Format, Found};

/// Retries of client errors.
pub static RETRIES_CLIENT_ERRORS: Rule = Rule {
    name: "retries-client-errors",
    severity: Severity::Error,
    about: "client errors are retried, although the same request fails again",
    origin: "the table of statuses and the checklist of \"Retries & Exponential Backoff\"",
};

/// A 500 for an unsafe request.
pub static RETRIES_500_UNSAFE: Rule = Rule {
    name: "retries-500-unsafe",
    severity: Severity::Error,
    about: "a 500 is retried for requests that may have been processed and carry no idempotency key",
    origin: "the payment exercise of \"Retries & Exponential Backoff\"; \"Preventing Retry Storms\" on idempotency",
};

/// An unknown outcome of an unsafe request.
pub static UNSAFE_WITHOUT_KEY: Rule = Rule {
    name: "unsafe-without-key",
    severity: Severity::Error,
    about: "requests that are not idempotent are retried without a key after failures with an unknown outcome",
    origin: "question 4 of \"Retries & Exponential Backoff\"; \"Preventing Retry Storms\" on idempotency; Istio issue 50506",
};

/// The gRPC statuses that blame the request.
const GRPC_CLIENT_ERRORS: [u16; 8] = [3, 5, 6, 7, 9, 11, 12, 16];

pub(super) fn retries_client_errors(case: &Case<'_>) -> Option<Violation> {
    let codes = case.repeating()?.retry_on().codes().iter();
    let codes: Vec<u16> = codes.copied().filter(|code| is_client_error(*code)).collect();
    if codes.is_empty() {
        return None;
    }
    let list = codes.iter().copied().map(status).collect::<Vec<_>>().join(", ");
    let message = format!(
        "{list} will be retried: the server understood the request and rejected it, so every retry gets the same response"
    );
    let retry_on = case.system().word("retry_on").unwrap_or("retry_on");
    let more = (case.system().advice.client_errors)(&codes);
    let help = format!("remove {list} from `{retry_on}`{more}");
    Some(Violation::new("retry_on", message, help))
}

fn is_client_error(code: u16) -> bool {
    let http = (400..500).contains(&code) && !matches!(code, 408 | 425 | 429);
    http || GRPC_CLIENT_ERRORS.contains(&code)
}

/// A status as its protocol writes it.
fn status(code: u16) -> String {
    GRPC_STATUSES.get(usize::from(code)).map_or_else(|| code.to_string(), |name| (*name).to_owned())
}

/// The retried failures after which the outcome is unknown, as `retry_on` names them.
pub(super) fn retried_unknowns(policy: &Policy) -> Vec<String> {
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

pub(super) fn retries_500_unsafe(case: &Case<'_>) -> Option<Violation> {
    let is_only = retried_unknowns(case.repeating()?) == ["500"];
    let requests = Requests::retried(case).filter(|_| is_only)?;
    Some(requests.without_key(case, "a 500", "stop retrying 500"))
}

pub(super) fn unsafe_without_key(case: &Case<'_>) -> Option<Violation> {
    let unknowns = retried_unknowns(case.repeating()?);
    let has_others = unknowns.iter().any(|unknown| unknown != "500");
    let requests = Requests::retried(case).filter(|_| has_others)?;
    let or = case.system().advice.only;
    // The default conditions of a mesh include statuses that only gRPC has, also in routes of plain HTTP.
    let is_grpc = |unknown: &String| GRPC_STATUSES.contains(&unknown.as_str());
    let is_default = !case.found.places.has("retry_on") && unknowns.iter().all(is_grpc);
    let unknowns = if case.found.format == Format::Grpc { as_grpc(&unknowns) } else { unknowns };
    let violation = requests.without_key(case, &unknowns.join(", "), or);
    Some(violation.at_most(Severity::Note, is_default))
}

/// Classes as the statuses that they stand for in a service config.
fn as_grpc(failures: &[String]) -> Vec<String> {
    let named = failures.iter().map(|failure| match failure.as_str() {
        "reset" | "overloaded" => "UNAVAILABLE",
        "timeout" => "DEADLINE_EXCEEDED",
        "server-error" => "UNKNOWN and INTERNAL",
        status => status,
    });
    let mut named: Vec<String> = named.map(str::to_owned).collect();
    named.dedup();
    named
}

/// Requests that must not be processed twice.
pub(super) struct Requests {
    /// For example "POST requests".
    pub(super) what: String,
    /// The index of the first route with such a request.
    pub(super) route: usize,
    /// Whether a route names their methods. Without, they may all be reads.
    is_named: bool,
}

impl Requests {
    /// The unsafe requests without a key that are retried.
    fn retried(case: &Case<'_>) -> Option<Self> {
        let Found { checks_safety, format, .. } = case.found;
        // Another system was configured not to make these retries. Ours was asked to make them, and refuses.
        let is_configured = *checks_safety && *format != Format::Redial;
        Self::unsafe_ones(case, *checks_safety).filter(|_| !is_configured)
    }

    /// The unsafe requests without a key. If nothing checks safety, requests of unknown methods count as unsafe.
    pub(super) fn unsafe_ones(case: &Case<'_>, checks_safety: bool) -> Option<Self> {
        let routes = &case.found.routes;
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
            let what = format!("{} requests", methods.join(" and "));
            let what = case.system().advice.requests.map_or(what, str::to_owned);
            return Some(Self { what, route, is_named: true });
        }
        let any = routes.is_empty() || keyless().any(|(_, route)| route.methods.is_empty());
        let what = case.system().advice.requests.unwrap_or("requests of every method").to_owned();
        (any && !checks_safety).then_some(Self { what, route: 0, is_named: false })
    }

    /// Other systems retry such a request. Ours does not, which is safe but may be unexpected.
    fn without_key(&self, case: &Case<'_>, failures: &str, or: &str) -> Violation {
        let Self { what, route, is_named } = self;
        if case.found.checks_safety {
            let message = format!(
                "{what} carry no idempotency key, so Redial will not retry them after {failures}: the server may have \
                 processed the request, and the call fails"
            );
            let help =
                format!("send an idempotency key and write `key = true` in the route, or {or}");
            let violation = Violation::new(format!("route[{route}]"), message, help);
            return violation.at_most(Severity::Warning, true);
        }
        let message = format!(
            "{what} will be retried after {failures}, and nothing shows that they carry an idempotency key: the \
             server may process them twice"
        );
        let help = format!(
            "send an idempotency key, the same for every attempt, {}, or {or}",
            case.system().advice.exempt
        );
        let violation = Violation::new("retry_on", message, help);
        let violation = violation.at_most(Severity::Warning, !is_named);
        violation.note_unless(case.system().advice.names_requests)
    }
}
