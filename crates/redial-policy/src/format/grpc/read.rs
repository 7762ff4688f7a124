use std::collections::HashSet;

use redial_core::admit::budget::{Budget, ThrottlingBudget};
use redial_core::decide::{Class, GRPC_STATUSES, RetryOn};
use redial_core::schedule::{Backoff, Growth, Jitter};
use redial_core::{Draft, LONGEST, Nanos, parse_duration};

use super::super::account::{Account, Around};
use super::super::{Format, exactly};
use super::{
    DEADLINE_EXCEEDED, INTERNAL, JITTER, MOST_ATTEMPTS, RESOURCE_EXHAUSTED, UNAVAILABLE, UNKNOWN,
};
use crate::file::{Route, Setting};
use crate::pile::{Document, Reading};
use crate::rules::reading::SILENTLY_CLAMPED;
use crate::source::Problem;
use crate::tree::{Here, Value};

pub(super) fn read(documents: &[Document], reading: &mut Reading) {
    for document in documents.iter().filter(|document| super::recognises(&document.node)) {
        if let Err(problem) = config(document, reading) {
            reading.problems.push((document.source, problem));
        }
    }
}

fn config(document: &Document, reading: &mut Reading) -> Result<(), Problem> {
    let top = Here::top(&document.node);
    let throttling = top.get("retryThrottling");
    if let Some(here) = &throttling {
        self::throttling(here, &mut Account::new(document, here))?;
    }
    let (mut names, mut reported) = (HashSet::new(), false);
    let Some(methods) = top.get("methodConfig") else { return Ok(()) };
    for method in methods.list()? {
        let mut account = Account::new(document, &method);
        let (name, routes) = routes(&method, &mut names, &mut account)?;
        let Some(mut draft) = policy(&method, &mut account)? else { continue };
        if let Some(here) = &throttling {
            draft = draft.budget(Budget::Throttling(self::throttling(here, &mut account)?));
            if !std::mem::replace(&mut reported, true) {
                account.unknown_but(here, &["maxTokens", "tokenRatio"]);
            }
        }
        let around = Around { format: Format::Grpc, name, routes, setting: Setting::default() };
        account.finish(draft, around, reading);
    }
    Ok(())
}

/// One bucket for all methods of a server.
fn throttling(here: &Here<'_>, account: &mut Account<'_>) -> Result<ThrottlingBudget, Problem> {
    let field =
        |name: &str| here.get(name).ok_or_else(|| here.wrong(format_args!("`{name}` is missing")));
    let (tokens, ratio) = (field("maxTokens")?, field("tokenRatio")?);
    let capacity = tokens.count(1..=1000)?;
    account.kept(&tokens, "budget.throttling.capacity", "budget.throttling.capacity");
    // More decimals than three are ignored there; the small addition keeps 0.1 from becoming 0.099.
    let exact = ratio.number()?;
    let rounded = (exact * 1000.0 + 1e-6).floor() / 1000.0;
    if rounded < 0.001 {
        return Err(ratio.wrong("must be at least 0.001; more than three decimals are ignored"));
    }
    let field = "budget.throttling.ratio";
    if (exact - rounded).abs() < 1e-8 {
        account.kept(&ratio, field, field);
    } else {
        let text = format!("{field} = {rounded}: more than three decimals are ignored");
        account.approximated(&ratio, field, text);
    }
    Ok(ThrottlingBudget::new(capacity, rounded))
}

/// Which methods it is for. A method stands in one config only: gRPC throws both away otherwise.
fn routes(
    method: &Here<'_>,
    names: &mut HashSet<String>,
    account: &mut Account<'_>,
) -> Result<(String, Vec<Route>), Problem> {
    let Some(list) = method.get("name") else {
        account
            .notes
            .push(crate::Note::dropped(method.path(), "without `name` it is for no method"));
        return Ok((method.path().to_owned(), Vec::new()));
    };
    let mut routes = Vec::new();
    let mut first = None;
    for name in list.list()? {
        account.unknown_but(&name, &["service", "method"]);
        let part = |key: &str| name.get(key).map(|part| part.text()).transpose();
        let service = part("service")?.unwrap_or("");
        let called = match (service, part("method")?.unwrap_or("")) {
            ("", "") => "*".to_owned(),
            ("", _) => {
                return Err(name.wrong("has a method and no service").help("add `service`"));
            }
            (service, "") => format!("{service}/*"),
            (service, called) => format!("{service}/{called}"),
        };
        if !names.insert(called.clone()) {
            return Err(name
                .wrong(format_args!("`{called}` already has a config"))
                .help("gRPC refuses the whole service config; keep one of them"));
        }
        if called != "*" {
            let path = Some(format!("/{called}"));
            routes.push(Route { path, methods: vec!["POST".to_owned()], ..Route::default() });
        }
        first.get_or_insert(called);
    }
    account.kept(&list, "routes", "routes by path");
    let name = match first.as_deref() {
        None | Some("*") => "default".to_owned(),
        Some(name) => name.trim_end_matches("/*").to_owned(),
    };
    for route in &mut routes {
        route.policy.clone_from(&name);
    }
    Ok((name, routes))
}

/// What it does, if it says anything about retries.
fn policy(method: &Here<'_>, account: &mut Account<'_>) -> Result<Option<Draft>, Problem> {
    let (retry, hedging) = (method.get("retryPolicy"), method.get("hedgingPolicy"));
    let mut draft = match (&retry, &hedging) {
        (None, None) => return Ok(None),
        (Some(_), Some(hedging)) => {
            return Err(hedging
                .wrong("stands beside `retryPolicy`")
                .help("a method is retried or hedged; gRPC refuses both together"));
        }
        (Some(retry), None) => retries(retry, account)?,
        (None, Some(hedging)) => {
            let text = "a policy has no hedging: what is left is one attempt";
            account.dropped(hedging, text);
            Draft::bare(1)
        }
    };
    for field in ["waitForReady", "maxRequestMessageBytes", "maxResponseMessageBytes"] {
        if let Some(here) = method.get(field) {
            account.dropped(&here, "not about retries");
        }
    }
    let known = ["name", "timeout", "waitForReady", "maxRequestMessageBytes"];
    let more = ["maxResponseMessageBytes", "retryPolicy", "hedgingPolicy"];
    account.unknown_but(method, &[&known[..], &more[..]].concat());
    if let Some(timeout) = method.get("timeout") {
        let deadline = duration(&timeout)?;
        account.kept(&timeout, "deadline", "deadline: it spans all attempts");
        draft = draft.deadline(std::time::Duration::from_nanos(deadline));
    }
    Ok(Some(draft))
}

fn retries(retry: &Here<'_>, account: &mut Account<'_>) -> Result<Draft, Problem> {
    let known = [
        "maxAttempts",
        "initialBackoff",
        "maxBackoff",
        "backoffMultiplier",
        "retryableStatusCodes",
        "perAttemptRecvTimeout",
    ];
    account.unknown_but(retry, &known);
    let field = |name: &str| {
        retry.get(name).ok_or_else(|| retry.wrong(format_args!("`{name}` is missing")))
    };
    let attempts = attempts(&field("maxAttempts")?, account)?;
    let (initial, most) = (field("initialBackoff")?, field("maxBackoff")?);
    let (base, cap) = (duration(&initial)?, duration(&most)?);
    let multiplier = field("backoffMultiplier")?;
    let factor = multiplier.number()?;
    if factor <= 0.0 {
        return Err(multiplier.wrong(format_args!("must be above 0, but is {factor}")));
    }
    if base > cap {
        let text = "backoff.base: no wait is longer than maxBackoff, so that is the base";
        account.approximated(&initial, "backoff.base", text);
    } else {
        account.kept(&initial, "backoff.base", "backoff.base");
    }
    let text = "backoff.cap; gRPC adds its jitter of 20% after the cap, and here nothing is longer than the cap";
    account.approximated(&most, "backoff.cap", text);
    account.kept(&multiplier, "backoff.growth.exponential", "backoff.growth");
    let backoff = Backoff {
        growth: Growth::Exponential(factor),
        base: base.min(cap),
        cap,
        jitter: Jitter::Around(JITTER),
        clip: false,
    };
    let retry_on = statuses(&field("retryableStatusCodes")?, account)?;
    let mut draft =
        Draft::bare(attempts).backoff(backoff).hint(exactly(LONGEST)).retry_on(retry_on);
    if let Some(here) = retry.get("perAttemptRecvTimeout") {
        let text = "attempt_timeout; gRPC starts it anew with every message";
        account.approximated(&here, "attempt_timeout", text);
        draft = draft.attempt_timeout(std::time::Duration::from_nanos(duration(&here)?));
    }
    Ok(draft)
}

fn attempts(here: &Here<'_>, account: &mut Account<'_>) -> Result<u32, Problem> {
    let help = "it counts attempts, the first one included; to try once, leave `retryPolicy` out";
    let attempts = here.count(2..=u32::MAX).map_err(|problem| problem.help(help))?;
    if attempts <= MOST_ATTEMPTS {
        account.kept(here, "attempts", "attempts: both count the first one");
        return Ok(attempts);
    }
    let message = format!("is {attempts}, and gRPC makes {MOST_ATTEMPTS} attempts");
    account.finding(&SILENTLY_CLAMPED, here, message, format!("write {MOST_ATTEMPTS}, or fewer"));
    account.approximated(here, "attempts", format!("attempts = {MOST_ATTEMPTS}, as gRPC has it"));
    Ok(MOST_ATTEMPTS)
}

fn statuses(here: &Here<'_>, account: &mut Account<'_>) -> Result<RetryOn, Problem> {
    let mut codes = Vec::new();
    for status in here.list()? {
        let code = match &status.node.value {
            Value::Text(name) => {
                GRPC_STATUSES.iter().position(|status| status == &name.to_ascii_uppercase())
            }
            Value::Integer(number) => usize::try_from(*number).ok().filter(|code| *code < 17),
            _ => None,
        };
        let code = code.ok_or_else(|| {
            let problem = status.wrong(format_args!("gRPC has no status {}", status.node.value));
            problem.help("a name such as \"UNAVAILABLE\", or a number from 0 to 16")
        })?;
        codes.push(code as u16);
    }
    if codes.is_empty() {
        return Err(here.wrong("must not be empty").help("name a status, such as \"UNAVAILABLE\""));
    }
    if here.items().any(|status| status.node.text().is_none_or(|name| name != name.to_uppercase()))
    {
        let text = "retry_on; clients in C++ and Python take names in capitals only, and refuse the config";
        account.approximated(here, "retry_on", text);
    } else {
        let text =
            "retry_on: classes where one means exactly these statuses, or else their numbers";
        account.kept(here, "retry_on", text);
    }
    Ok(failures(&codes))
}

/// A class of ours where gRPC means all of it, or else the number.
fn failures(codes: &[u16]) -> RetryOn {
    let both = codes.contains(&UNKNOWN) && codes.contains(&INTERNAL);
    codes.iter().fold(RetryOn::nothing(), |on, code| match *code {
        // What breaks before or below HTTP has this status too.
        UNAVAILABLE => {
            let on = on.class(Class::Connect).class(Class::Refused);
            on.class(Class::Reset).class(Class::Overloaded)
        }
        DEADLINE_EXCEEDED => on.class(Class::Timeout),
        UNKNOWN | INTERNAL if both => on.class(Class::ServerError),
        RESOURCE_EXHAUSTED => on.class(Class::Throttled).code(RESOURCE_EXHAUSTED),
        code => on.code(code),
    })
}

/// `0.1s`, `.5s`: seconds, and nothing finer than a nanosecond.
fn duration(here: &Here<'_>) -> Result<Nanos, Problem> {
    let help = "durations are seconds, as text: \"0.1s\"";
    let text = here.word()?;
    let seconds = text.strip_suffix('s').filter(|digits| {
        digits.ends_with(|c: char| c.is_ascii_digit())
            && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    });
    let seconds = seconds.filter(|_| here.node.text().is_some()).ok_or_else(|| {
        here.wrong(format_args!("must end in `s`, but is {}", here.node.value)).help(help)
    })?;
    let zero = if seconds.starts_with('.') { "0" } else { "" };
    match parse_duration(&format!("{zero}{seconds}s")) {
        Ok(0) => Err(here.wrong("must be above 0s")),
        Ok(nanos) if nanos <= LONGEST => Ok(nanos),
        _ => Err(here.wrong(format_args!("is no duration: {}", here.node.value)).help(help)),
    }
}
