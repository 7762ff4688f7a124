use std::collections::HashSet;
use std::time::Duration;

use redial_core::admit::budget::{Budget, ThrottlingBudget};
use redial_core::decide::{Class, GRPC_STATUSES, RetryOn};
use redial_core::schedule::{Backoff, Growth, HedgeRule, Jitter};
use redial_core::{Draft, LONGEST, Nanos, parse_duration};

use super::super::import::{HEDGE_AFTER_FAILURE, Import, Metadata};
use super::super::{Format, exactly};
use super::{
    DEADLINE_EXCEEDED, INTERNAL, JITTER, MOST_ATTEMPTS, RESOURCE_EXHAUSTED, UNAVAILABLE, UNKNOWN,
};
use crate::file::{Route, Setting};
use crate::found::Note;
use crate::inputs::{Document, Reading};
use crate::rules::reading::SILENTLY_CLAMPED;
use crate::source::Problem;
use crate::tree::{Cursor, Value};

pub(super) fn read(documents: &[Document], reading: &mut Reading) {
    for document in documents.iter().filter(|document| super::recognises(&document.node)) {
        if let Err(problem) = config(document, reading) {
            reading.problems.push((document.source, problem));
        }
    }
}

fn config(document: &Document, reading: &mut Reading) -> Result<(), Problem> {
    let top = Cursor::top(&document.node);
    let throttling = top.get("retryThrottling");
    if let Some(here) = &throttling {
        self::throttling(here, &mut Import::new(document, here))?;
    }
    let (mut names, mut reported) = (HashSet::new(), false);
    let Some(methods) = top.get("methodConfig") else { return Ok(()) };
    for method in methods.list()? {
        let mut import = Import::new(document, &method);
        let (name, routes) = routes(&method, &mut names, &mut import)?;
        let Some(mut draft) = policy(&method, &mut import)? else { continue };
        if let Some(here) = &throttling {
            draft = draft.budget(Budget::Throttling(self::throttling(here, &mut import)?));
            if !std::mem::replace(&mut reported, true) {
                import.unknown_but(here, &["maxTokens", "tokenRatio"]);
            }
        }
        let metadata = Metadata { format: Format::Grpc, name, routes, setting: Setting::default() };
        import.finish(draft, metadata, reading);
    }
    Ok(())
}

/// The token bucket of all methods of a server.
fn throttling(here: &Cursor<'_>, import: &mut Import<'_>) -> Result<ThrottlingBudget, Problem> {
    let field = |name: &str| {
        here.get(name).ok_or_else(|| here.problem(format_args!("missing field `{name}`")))
    };
    let (tokens, ratio) = (field("maxTokens")?, field("tokenRatio")?);
    let capacity = tokens.count(1..=1000)?;
    import.places.put("budget", import.place(here));
    import.kept(&tokens, "budget.throttling.capacity", "budget.throttling.capacity");
    // gRPC ignores more than three decimals; the small addition keeps 0.1 from becoming 0.099.
    let exact = ratio.number()?;
    let rounded = (exact * 1000.0 + 1e-6).floor() / 1000.0;
    if rounded < 0.001 {
        return Err(ratio.problem("must be at least 0.001; more than three decimals are ignored"));
    }
    let field = "budget.throttling.ratio";
    if (exact - rounded).abs() < 1e-8 {
        import.kept(&ratio, field, field);
    } else {
        let text = format!("{field} = {rounded}: more than three decimals are ignored");
        import.approximated(&ratio, field, text);
    }
    Ok(ThrottlingBudget::new(capacity, rounded))
}

/// The methods of a config. gRPC refuses a service config with two configs for one method.
fn routes(
    method: &Cursor<'_>,
    names: &mut HashSet<String>,
    import: &mut Import<'_>,
) -> Result<(String, Vec<Route>), Problem> {
    let Some(list) = method.get("name") else {
        import.notes.push(Note::dropped(method.path(), "without `name` it applies to no method"));
        return Ok((method.path().to_owned(), Vec::new()));
    };
    let mut routes = Vec::new();
    let mut first = None;
    for name in list.list()? {
        import.unknown_but(&name, &["service", "method"]);
        let part = |key: &str| name.get(key).map(|part| part.text()).transpose();
        let service = part("service")?.unwrap_or("");
        let called = match (service, part("method")?.unwrap_or("")) {
            ("", "") => "*".to_owned(),
            ("", _) => {
                return Err(name.problem("a method without a service").help("add `service`"));
            }
            (service, "") => format!("{service}/*"),
            (service, called) => format!("{service}/{called}"),
        };
        if !names.insert(called.clone()) {
            return Err(name
                .problem(format_args!("`{called}` already has a config"))
                .help("gRPC rejects the whole service config; remove one of them"));
        }
        if called != "*" {
            let path = Some(format!("/{called}"));
            routes.push(Route { path, methods: vec!["POST".to_owned()], ..Route::default() });
        }
        first.get_or_insert(called);
    }
    import.kept(&list, "routes", "routes by path");
    let name = match first.as_deref() {
        None | Some("*") => "default".to_owned(),
        Some(name) => name.trim_end_matches("/*").to_owned(),
    };
    for route in &mut routes {
        route.policy.clone_from(&name);
    }
    Ok((name, routes))
}

/// The policy, if the config has one.
fn policy(method: &Cursor<'_>, import: &mut Import<'_>) -> Result<Option<Draft>, Problem> {
    let (retry, hedging) = (method.get("retryPolicy"), method.get("hedgingPolicy"));
    let mut draft = match (&retry, &hedging) {
        (None, None) => return Ok(None),
        (Some(_), Some(hedging)) => {
            return Err(hedging
                .problem("conflicts with `retryPolicy`")
                .help("gRPC rejects a method with both retries and hedging"));
        }
        (Some(retry), None) => retries(retry, import)?,
        (None, Some(hedging)) => hedges(hedging, import)?,
    };
    for field in ["waitForReady", "maxRequestMessageBytes", "maxResponseMessageBytes"] {
        if let Some(here) = method.get(field) {
            import.dropped(&here, "not about retries");
        }
    }
    let known = ["name", "timeout", "waitForReady", "maxRequestMessageBytes"];
    let more = ["maxResponseMessageBytes", "retryPolicy", "hedgingPolicy"];
    import.unknown_but(method, &[&known[..], &more[..]].concat());
    if let Some(timeout) = method.get("timeout") {
        let deadline = duration(&timeout)?;
        import.kept(&timeout, "deadline", "deadline: it spans all attempts");
        draft = draft.deadline(Duration::from_nanos(deadline));
    }
    Ok(Some(draft))
}

fn retries(retry: &Cursor<'_>, import: &mut Import<'_>) -> Result<Draft, Problem> {
    let known = [
        "maxAttempts",
        "initialBackoff",
        "maxBackoff",
        "backoffMultiplier",
        "retryableStatusCodes",
        "perAttemptRecvTimeout",
    ];
    import.unknown_but(retry, &known);
    let field = |name: &str| {
        retry.get(name).ok_or_else(|| retry.problem(format_args!("missing field `{name}`")))
    };
    let attempts = attempts(&field("maxAttempts")?, "retryPolicy", import)?;
    let (initial, most) = (field("initialBackoff")?, field("maxBackoff")?);
    let (base, cap) = (duration(&initial)?, duration(&most)?);
    let multiplier = field("backoffMultiplier")?;
    let factor = multiplier.number()?;
    if factor <= 0.0 {
        return Err(multiplier.problem(format_args!("must be above 0, but is {factor}")));
    }
    if base > cap {
        let text = "backoff.base = maxBackoff, because no wait is longer";
        import.approximated(&initial, "backoff.base", text);
    } else {
        import.kept(&initial, "backoff.base", "backoff.base");
    }
    let text =
        "backoff.cap; gRPC adds its jitter of 20% after the cap, and here no wait exceeds the cap";
    import.approximated(&most, "backoff.cap", text);
    import.kept(&multiplier, "backoff.growth.exponential", "backoff.growth");
    let backoff = Backoff {
        growth: Growth::Exponential(factor),
        base: base.min(cap),
        cap,
        jitter: Jitter::Around(JITTER),
        clip: false,
    };
    let retry_on = statuses(&field("retryableStatusCodes")?, import)?;
    let mut draft =
        Draft::bare(attempts).backoff(backoff).hint(exactly(LONGEST)).retry_on(retry_on);
    if let Some(here) = retry.get("perAttemptRecvTimeout") {
        let text = "attempt_timeout; gRPC restarts it with every message";
        import.approximated(&here, "attempt_timeout", text);
        draft = draft.attempt_timeout(Duration::from_nanos(duration(&here)?));
    }
    Ok(draft)
}

fn hedges(hedging: &Cursor<'_>, import: &mut Import<'_>) -> Result<Draft, Problem> {
    import.unknown_but(hedging, &["maxAttempts", "hedgingDelay", "nonFatalStatusCodes"]);
    let Some(most) = hedging.get("maxAttempts") else {
        return Err(hedging.problem("missing field `maxAttempts`"));
    };
    let attempts = attempts(&most, "hedgingPolicy", import)?;
    let written = hedging.get("hedgingDelay");
    let delay = written.as_ref().map_or(Ok(0), seconds)?;
    match &written {
        Some(here) if delay > 0 => import.kept(here, "hedge.after", "hedge.after"),
        _ => {
            let text = "hedge.after = 1ns: all attempts are sent at once";
            import.notes.push(Note::approximated(hedging.path(), text));
        }
    }
    import.notes.push(Note::approximated(hedging.path(), HEDGE_AFTER_FAILURE));
    let retry_on = match hedging.get("nonFatalStatusCodes") {
        Some(here) if here.list()?.next().is_some() => statuses(&here, import)?,
        _ => RetryOn::nothing(),
    };
    import.places.put("hedge", import.place(hedging));
    let rule = HedgeRule::after(Duration::from_nanos(delay.max(1))).at_most(attempts - 1);
    Ok(Draft::bare(attempts).hedge(rule).retry_on(retry_on).hint(exactly(LONGEST)))
}

fn attempts(here: &Cursor<'_>, section: &str, import: &mut Import<'_>) -> Result<u32, Problem> {
    let help = format!(
        "it counts attempts, including the first; for a single attempt, remove `{section}`"
    );
    let attempts = here.count(2..=u32::MAX).map_err(|problem| problem.help(help))?;
    if attempts <= MOST_ATTEMPTS {
        import.kept(here, "attempts", "attempts: both include the first");
        return Ok(attempts);
    }
    let message = format!("is {attempts}, but gRPC makes at most {MOST_ATTEMPTS} attempts");
    import.finding(&SILENTLY_CLAMPED, here, message, format!("write {MOST_ATTEMPTS} or less"));
    import.approximated(here, "attempts", format!("attempts = {MOST_ATTEMPTS}, gRPC's limit"));
    Ok(MOST_ATTEMPTS)
}

fn statuses(here: &Cursor<'_>, import: &mut Import<'_>) -> Result<RetryOn, Problem> {
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
            let problem = status.problem(format_args!("unknown gRPC status {}", status.node.value));
            problem.help("use a name such as \"UNAVAILABLE\", or a number from 0 to 16")
        })?;
        codes.push(code as u16);
    }
    if codes.is_empty() {
        return Err(here
            .problem("must not be empty")
            .help("add a status, such as \"UNAVAILABLE\""));
    }
    if here.items().any(|status| status.node.text().is_none_or(|name| name != name.to_uppercase()))
    {
        let text = "retry_on; clients in C++ and Python accept only names in upper case, and reject the config";
        import.approximated(here, "retry_on", text);
    } else {
        let text = "retry_on: classes that mean exactly these statuses, or else their numbers";
        import.kept(here, "retry_on", text);
    }
    Ok(failures(&codes))
}

/// The class, if it means exactly these statuses, or else their numbers.
fn failures(codes: &[u16]) -> RetryOn {
    let both = codes.contains(&UNKNOWN) && codes.contains(&INTERNAL);
    codes.iter().fold(RetryOn::nothing(), |on, code| match *code {
        // Failures of the connection have this status too.
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

fn duration(here: &Cursor<'_>) -> Result<Nanos, Problem> {
    match seconds(here)? {
        0 => Err(here.problem("must be above 0s")),
        nanos => Ok(nanos),
    }
}

/// Seconds such as `0.1s` or `.5s`, down to a nanosecond.
fn seconds(here: &Cursor<'_>) -> Result<Nanos, Problem> {
    let help = "write seconds as a string: \"0.1s\"";
    let text = here.scalar()?;
    let seconds = text.strip_suffix('s').filter(|digits| {
        digits.ends_with(|c: char| c.is_ascii_digit())
            && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    });
    let seconds = seconds.filter(|_| here.node.text().is_some()).ok_or_else(|| {
        here.problem(format_args!("must end in `s`, but is {}", here.node.value)).help(help)
    })?;
    let zero = if seconds.starts_with('.') { "0" } else { "" };
    match parse_duration(&format!("{zero}{seconds}s")) {
        Ok(nanos) if nanos <= LONGEST => Ok(nanos),
        _ => Err(here.problem(format_args!("invalid duration {}", here.node.value)).help(help)),
    }
}
