use std::collections::HashSet;
use std::time::Duration;

use redial_core::admit::budget::{Budget, ThrottlingBudget};
use redial_core::decide::{Class, GRPC_STATUSES, RetryOn};
use redial_core::schedule::{Backoff, Growth, HedgeRule, Jitter};
use redial_core::{Draft, LONGEST, MS, Nanos, SECOND};

use super::super::import::{HEDGE_AFTER_FAILURE, Import, Metadata};
use super::super::{Format, exactly};
use super::{
    DEADLINE_EXCEEDED, INTERNAL, JITTER, MOST_ATTEMPTS, MOST_GROWTH, RESOURCE_EXHAUSTED,
    UNAVAILABLE, UNKNOWN,
};
use crate::file::{Route, Setting};
use crate::found::Note;
use crate::inputs::{Document, Reading};
use crate::rules::reading::{REFUSED_AT_START, SILENTLY_CLAMPED};
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
    let Some(methods) = top.get("methodConfig") else {
        return throttling.map_or(Ok(()), |here| only_throttling(document, &here, reading));
    };
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

/// A service config without methods: a bucket for retries that other configs of the channel may add.
fn only_throttling(
    document: &Document,
    here: &Cursor<'_>,
    reading: &mut Reading,
) -> Result<(), Problem> {
    let mut import = Import::new(document, here);
    let budget = Budget::Throttling(throttling(here, &mut import)?);
    import.unknown_but(here, &["maxTokens", "tokenRatio"]);
    let text = "attempts = 1: without a retryPolicy nothing is retried";
    import.notes.push(Note::approximated(here.path(), text));
    let (name, setting) = ("default".to_owned(), Setting::default());
    let metadata = Metadata { format: Format::Grpc, name, routes: Vec::new(), setting };
    import.finish(Draft::bare(1).budget(budget), metadata, reading);
    Ok(())
}

/// The token bucket of all methods of a server.
fn throttling(here: &Cursor<'_>, import: &mut Import<'_>) -> Result<ThrottlingBudget, Problem> {
    let [tokens, ratio] = required(here, ["maxTokens", "tokenRatio"])?;
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
    let [most, initial, longest, multiplier, codes] = required(
        retry,
        [
            "maxAttempts",
            "initialBackoff",
            "maxBackoff",
            "backoffMultiplier",
            "retryableStatusCodes",
        ],
    )?;
    let attempts = attempts(&most, "retryPolicy", import)?;
    let (base, cap) = (duration(&initial)?, duration(&longest)?);
    for (here, nanos) in [(&initial, base), (&longest, cap)] {
        if nanos < MS {
            let message = "clients of the C++ core cut it to whole milliseconds, and reject the config if none is left";
            import.finding(&REFUSED_AT_START, here, message, "write at least \"0.001s\"");
        }
    }
    let factor = factor(&multiplier, import)?;
    if base > cap {
        let text = "backoff.base = maxBackoff, because no wait is longer";
        import.approximated(&initial, "backoff.base", text);
    } else {
        import.kept(&initial, "backoff.base", "backoff.base");
    }
    let text =
        "backoff.cap; gRPC adds its jitter of 20% after the cap, and here no wait exceeds the cap";
    import.approximated(&longest, "backoff.cap", text);
    let backoff = Backoff {
        growth: Growth::Exponential(factor),
        base: base.min(cap),
        cap,
        jitter: Jitter::Around(JITTER),
        clip: false,
    };
    let retry_on = statuses(&codes, import)?;
    let mut draft =
        Draft::bare(attempts).backoff(backoff).hint(exactly(LONGEST)).retry_on(retry_on);
    if let Some(here) = retry.get("perAttemptRecvTimeout") {
        let text = "attempt_timeout; gRPC restarts it with every message";
        import.approximated(&here, "attempt_timeout", text);
        draft = draft.attempt_timeout(Duration::from_nanos(duration(&here)?));
    }
    Ok(draft)
}

/// These fields, or a problem that names all missing ones.
fn required<'a, const N: usize>(
    here: &Cursor<'a>,
    names: [&str; N],
) -> Result<[Cursor<'a>; N], Problem> {
    here.table()?;
    let missing: Vec<_> = names.iter().filter(|name| here.get(name).is_none()).copied().collect();
    let what = if missing.len() == 1 { "missing field" } else { "missing fields" };
    let problem = || here.problem(format_args!("{what} `{}`", missing.join("`, `")));
    let found: Vec<_> = names.iter().filter_map(|name| here.get(name)).collect();
    found.try_into().map_err(|_| problem())
}

/// The multiplier. gRPC accepts any above 0.
fn factor(here: &Cursor<'_>, import: &mut Import<'_>) -> Result<f64, Problem> {
    let field = "backoff.growth.exponential";
    let written = here.number()?;
    if written <= 0.0 {
        return Err(here.problem(format_args!("must be above 0, but is {written}")));
    }
    let factor = written.clamp(1.0, MOST_GROWTH);
    if factor.to_bits() == written.to_bits() {
        import.kept(here, field, "backoff.growth");
    } else {
        let text = format!("{field} = {factor}: a policy has 1 to {MOST_GROWTH}");
        import.approximated(here, field, text);
    }
    Ok(factor)
}

fn hedges(hedging: &Cursor<'_>, import: &mut Import<'_>) -> Result<Draft, Problem> {
    import.unknown_but(hedging, &["maxAttempts", "hedgingDelay", "nonFatalStatusCodes"]);
    let [most] = required(hedging, ["maxAttempts"])?;
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
    let is_name =
        |status: &Cursor<'_>| status.node.text().is_some_and(|name| name == name.to_uppercase());
    if let Some(other) = here.items().find(|status| !is_name(status)) {
        let message = "is not a name in upper case, so clients of the C++ core (C++, Python, Ruby, PHP, Objective-C) reject \
                       the config; those in Go and Java accept numbers";
        let help = "write names such as \"UNAVAILABLE\"";
        import.finding(&REFUSED_AT_START, &other, message, help);
    }
    let text = "retry_on: classes that mean exactly these statuses, or else their numbers";
    import.kept(here, "retry_on", text);
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

/// The longest duration of protobuf in seconds: about 10,000 years.
const MOST_SECONDS: u64 = 315_576_000_000;

/// Seconds such as `0.1s` or `.5s`, down to a nanosecond. One that is longer than any of a policy is as long as that.
fn seconds(here: &Cursor<'_>) -> Result<Nanos, Problem> {
    let help = "write seconds as a string: \"0.1s\"";
    let wrong =
        |why: &str| here.problem(format_args!("{why}, but is {}", here.node.value)).help(help);
    let text = here.node.text().ok_or_else(|| wrong("must be text"))?;
    let number = text.strip_suffix('s').ok_or_else(|| wrong("must end in `s`"))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.is_empty() || fraction.len() > 9 {
        return Err(wrong("must be digits, at most nine of them after a dot, and `s`"));
    }
    let whole = match whole {
        "" if number.is_empty() => return Err(wrong("must have digits before `s`")),
        "" => 0,
        whole => whole.parse().unwrap_or(u64::MAX),
    };
    if whole > MOST_SECONDS {
        return Err(wrong(&format!("must be at most {MOST_SECONDS}s")));
    }
    let fraction: u64 = format!("{fraction:0<9}").parse().unwrap_or_default();
    Ok(whole.saturating_mul(SECOND).saturating_add(fraction).min(LONGEST))
}
