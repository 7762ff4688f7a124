use std::collections::HashSet;

use redial_core::admit::budget::{Budget, ThrottlingBudget};
use redial_core::decide::{Class, GRPC_STATUSES, RetryOn};
use redial_core::schedule::{Backoff, Growth, HedgeRule, Jitter};
use redial_core::{Draft, LONGEST_DURATION, Span};

use super::super::import::{HEDGE_AFTER_FAILURE, Import, Metadata};
use super::super::time::SHORTEST_DURATION;
use super::super::{Format, exactly};
use super::duration::{duration, seconds};
use super::{
    DEADLINE_EXCEEDED, INTERNAL, JITTER, MOST_ATTEMPTS, MOST_GROWTH, RESOURCE_EXHAUSTED,
    UNAVAILABLE, UNKNOWN,
};
use crate::file::{Route, Setting};
use crate::finding::reading::{REFUSED_AT_START, SILENTLY_CLAMPED};
use crate::format::{ConfigReading, Note};
use crate::tree::{Cursor, Document, Value};

pub(super) fn read(documents: &[Document], reading: &mut ConfigReading) {
    for document in documents.iter().filter(|document| super::recognises(&document.node)) {
        config(document, reading);
    }
}

fn config(document: &Document, reading: &mut ConfigReading) {
    let top = Cursor::top(&document.node);
    let throttling = top.get("retryThrottling");
    let (mut names, mut reported) = (HashSet::new(), false);
    let Some(methods) = top.get("methodConfig") else {
        return throttling.into_iter().for_each(|here| only_throttling(document, &here, reading));
    };
    if let Some(here) = &throttling {
        // The bucket is read even if no method has a policy.
        let mut import = Import::new(document, here);
        self::throttling(here, &mut import);
        reading.add(document.source, import.problems);
    }
    if let Err(problem) = methods.list() {
        reading.problem(document.source, problem);
    }
    for method in methods.items() {
        let mut import = Import::new(document, &method);
        let (name, routes) = routes(&method, &mut names, &mut import);
        let Some(mut draft) = policy(&method, &mut import) else {
            import.report(reading);
            continue;
        };
        if let Some(here) = &throttling {
            if let Some(budget) = self::throttling(here, &mut import) {
                draft = draft.budget(Budget::Throttling(budget));
            }
            if !std::mem::replace(&mut reported, true) {
                import.unknown_but(here, &["maxTokens", "tokenRatio"]);
            }
        }
        let metadata = Metadata { format: Format::Grpc, name, routes, setting: Setting::default() };
        import.finish(draft, metadata, reading);
    }
}

/// A service config without methods: a bucket for retries that other configs of the channel may add.
fn only_throttling(document: &Document, here: &Cursor<'_>, reading: &mut ConfigReading) {
    let mut import = Import::new(document, here);
    let mut draft = Draft::bare(1);
    if let Some(budget) = throttling(here, &mut import) {
        draft = draft.budget(Budget::Throttling(budget));
    }
    import.unknown_but(here, &["maxTokens", "tokenRatio"]);
    let text = "attempts = 1: without a retryPolicy nothing is retried";
    import.notes.push(Note::approximated(here.path(), text));
    let (name, setting) = ("default".to_owned(), Setting::default());
    let metadata = Metadata { format: Format::Grpc, name, routes: Vec::new(), setting };
    import.finish(draft, metadata, reading);
}

/// The token bucket of all methods of a server.
fn throttling(here: &Cursor<'_>, import: &mut Import<'_>) -> Option<ThrottlingBudget> {
    let [tokens, ratio] = required(here, ["maxTokens", "tokenRatio"], import);
    import.places.put("budget", import.place(here));
    let capacity = tokens.and_then(|tokens| {
        import.kept(&tokens, "budget.throttling.capacity", "budget.throttling.capacity");
        import.problems.ok(tokens.count(1..=1000))
    });
    let ratio = ratio?;
    // gRPC ignores more than three decimals; the small addition keeps 0.1 from becoming 0.099.
    let exact = import.problems.ok(ratio.number())?;
    let rounded = (exact * 1000.0 + 1e-6).floor() / 1000.0;
    if rounded < 0.001 {
        let message = "must be at least 0.001; more than three decimals are ignored";
        import.problems.add(ratio.problem(message));
        return None;
    }
    let field = "budget.throttling.ratio";
    if (exact - rounded).abs() < 1e-8 {
        import.kept(&ratio, field, field);
    } else {
        let text = format!("{field} = {rounded}: more than three decimals are ignored");
        import.approximated(&ratio, field, text);
    }
    Some(ThrottlingBudget::new(capacity?, rounded))
}

/// The methods of a config. gRPC refuses a service config with two configs for one method.
fn routes(
    method: &Cursor<'_>,
    names: &mut HashSet<String>,
    import: &mut Import<'_>,
) -> (String, Vec<Route>) {
    let Some(list) = method.get("name") else {
        import.notes.push(Note::dropped(method.path(), "without `name` it applies to no method"));
        return (method.path().to_owned(), Vec::new());
    };
    let mut routes = Vec::new();
    let mut first = None;
    import.problems.ok(list.list());
    for name in list.items() {
        import.unknown_but(&name, &["service", "method"]);
        let part = |key: &str| match name.get(key) {
            Some(part) => import.problems.ok(part.text()),
            None => Some(""),
        };
        let called = match (part("service"), part("method")) {
            (Some(""), Some("")) => "*".to_owned(),
            (Some(""), Some(_)) => {
                let problem = name.problem("a method without a service");
                import.problems.add(problem.help("add `service`"));
                continue;
            }
            (Some(service), Some("")) => format!("{service}/*"),
            (Some(service), Some(called)) => format!("{service}/{called}"),
            _ => continue,
        };
        if !names.insert(called.clone()) {
            let problem = name.problem(format_args!("`{called}` already has a config"));
            let help = "gRPC rejects the whole service config; remove one of them";
            import.problems.add(problem.help(help));
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
    (name, routes)
}

/// The policy, if the config has one.
fn policy(method: &Cursor<'_>, import: &mut Import<'_>) -> Option<Draft> {
    let (retry, hedging) = (method.get("retryPolicy"), method.get("hedgingPolicy"));
    let mut draft = match (&retry, &hedging) {
        (None, None) => return None,
        (Some(retry), None) => retries(retry, import),
        (None, Some(hedging)) => hedges(hedging, import),
        (Some(retry), Some(hedging)) => {
            let problem = hedging.problem("conflicts with `retryPolicy`");
            let help = "gRPC rejects a method with both retries and hedging";
            import.problems.add(problem.help(help));
            hedges(hedging, import);
            retries(retry, import)
        }
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
        import.kept(&timeout, "deadline", "deadline: it spans all attempts");
        if let Some(deadline) = import.problems.ok(duration(&timeout)) {
            draft = draft.deadline(deadline.into());
        }
    }
    Some(draft)
}

fn retries(retry: &Cursor<'_>, import: &mut Import<'_>) -> Draft {
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
        import,
    );
    let attempts = most.map_or(2, |most| attempts(&most, "retryPolicy", import));
    let base = wait(initial.as_ref(), import);
    let cap = wait(longest.as_ref(), import);
    let factor = multiplier.map_or(1.0, |here| factor(&here, import));
    if let (Some(initial), Some(longest)) = (initial, longest) {
        if base > cap {
            let text = "backoff.base = maxBackoff, because no wait is longer";
            import.approximated(&initial, "backoff.base", text);
        } else {
            import.kept(&initial, "backoff.base", "backoff.base");
        }
        let text = "backoff.cap; gRPC adds its jitter of 20% after the cap, and here no wait exceeds the cap";
        import.approximated(&longest, "backoff.cap", text);
    }
    let backoff = Backoff {
        growth: Growth::Exponential(factor),
        base: base.min(cap),
        cap,
        jitter: Jitter::Around(JITTER),
        clip: false,
    };
    let mut draft = Draft::bare(attempts).backoff(backoff).hint(exactly(LONGEST_DURATION));
    if let Some(codes) = codes {
        draft = draft.retry_on(statuses(&codes, import));
    }
    if let Some(here) = retry.get("perAttemptRecvTimeout") {
        let text = "attempt_timeout; gRPC restarts it with every message";
        import.approximated(&here, "attempt_timeout", text);
        if let Some(timeout) = import.problems.ok(duration(&here)) {
            draft = draft.attempt_timeout(timeout.into());
        }
    }
    draft
}

/// A wait of the backoff.
fn wait(here: Option<&Cursor<'_>>, import: &mut Import<'_>) -> Span {
    let Some(here) = here else { return LONGEST_DURATION };
    let Some(wait) = import.problems.ok(duration(here)) else { return LONGEST_DURATION };
    if wait < Span::MILLISECOND {
        let message = "clients of the C++ core cut it to whole milliseconds, and reject the config if none is left";
        import.finding(&REFUSED_AT_START, here, message, "write at least \"0.001s\"");
    }
    wait
}

/// These fields, or a problem that names all missing ones.
fn required<'a, const N: usize>(
    here: &Cursor<'a>,
    names: [&str; N],
    import: &Import<'_>,
) -> [Option<Cursor<'a>>; N] {
    let found = names.map(|name| here.get(name));
    let missing = names.iter().zip(&found).filter(|(_, found)| found.is_none());
    let missing: Vec<_> = missing.map(|(name, _)| *name).collect();
    if import.problems.ok(here.table()).is_some() && !missing.is_empty() {
        let what = if missing.len() == 1 { "missing field" } else { "missing fields" };
        let message = format!("{what} `{}`", missing.join("`, `"));
        import.problems.add(here.problem(message));
    }
    found
}

/// The multiplier. gRPC accepts any above 0.
fn factor(here: &Cursor<'_>, import: &mut Import<'_>) -> f64 {
    let field = "backoff.growth.exponential";
    let written = import.problems.or(1.0, here.number());
    if written <= 0.0 {
        import.problems.add(here.problem(format_args!("must be above 0, but is {written}")));
    }
    let factor = written.clamp(1.0, MOST_GROWTH);
    if factor.to_bits() == written.to_bits() {
        import.kept(here, field, "backoff.growth");
    } else {
        let text = format!("{field} = {factor}: a policy has 1 to {MOST_GROWTH}");
        import.approximated(here, field, text);
    }
    factor
}

fn hedges(hedging: &Cursor<'_>, import: &mut Import<'_>) -> Draft {
    import.unknown_but(hedging, &["maxAttempts", "hedgingDelay", "nonFatalStatusCodes"]);
    let [most] = required(hedging, ["maxAttempts"], import);
    let attempts = most.map_or(2, |most| attempts(&most, "hedgingPolicy", import));
    let written = hedging.get("hedgingDelay");
    let delay = import.problems.or(Span::ZERO, written.as_ref().map_or(Ok(Span::ZERO), seconds));
    match &written {
        Some(here) if delay > Span::ZERO => import.kept(here, "hedge.after", "hedge.after"),
        _ => {
            let text = "hedge.after = 1ns: all attempts are sent at once";
            import.notes.push(Note::approximated(hedging.path(), text));
        }
    }
    import.notes.push(Note::approximated(hedging.path(), HEDGE_AFTER_FAILURE));
    let retry_on = match hedging.get("nonFatalStatusCodes") {
        Some(here) if here.node.list().is_none_or(|all| !all.is_empty()) => statuses(&here, import),
        _ => RetryOn::nothing(),
    };
    import.places.put("hedge", import.place(hedging));
    let rule = HedgeRule::after(delay.max(SHORTEST_DURATION).into()).at_most(attempts - 1);
    Draft::bare(attempts).hedge(rule).retry_on(retry_on).hint(exactly(LONGEST_DURATION))
}

fn attempts(here: &Cursor<'_>, section: &str, import: &mut Import<'_>) -> u32 {
    let help = format!(
        "it counts attempts, including the first; for a single attempt, remove `{section}`"
    );
    let attempts = here.count(2..=u32::MAX).map_err(|problem| problem.help(help));
    let attempts = import.problems.or(2, attempts);
    if attempts <= MOST_ATTEMPTS {
        import.kept(here, "attempts", "attempts: both include the first");
        return attempts;
    }
    let message = format!("is {attempts}, but gRPC makes at most {MOST_ATTEMPTS} attempts");
    import.finding(&SILENTLY_CLAMPED, here, message, format!("write {MOST_ATTEMPTS} or less"));
    import.approximated(here, "attempts", format!("attempts = {MOST_ATTEMPTS}, gRPC's limit"));
    MOST_ATTEMPTS
}

fn statuses(here: &Cursor<'_>, import: &mut Import<'_>) -> RetryOn {
    let mut codes = Vec::new();
    import.problems.ok(here.list());
    for status in here.items() {
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
        });
        codes.extend(import.problems.ok(code).map(|code| code as u16));
    }
    if here.node.list().is_some_and(<[_]>::is_empty) {
        let problem = here.problem("must not be empty");
        import.problems.add(problem.help("add a status, such as \"UNAVAILABLE\""));
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
    failures(&codes)
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
