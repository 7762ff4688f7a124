use std::collections::HashMap;

use redial_core::admit::budget::{Budget, Deposit, WindowBudget};
use redial_core::decide::Class;
use redial_core::{Policy, Rate, Span};

use super::super::envoy::retry_on::{TRANSPORT, all_statuses};
use super::super::{Written, export, gateway_api, kube, time};
use super::RETRY;
use crate::file::{File, Named, Route};
use crate::format::Note;
use crate::source::Problem;
use crate::tree::Value;

const HEAD: &str = "\
# For Linkerd. Replace services that are named after their policy.
";

/// A policy whose budget can be a share of recent calls becomes the `ServiceProfile` of its host, because only that has a
/// budget; any other becomes annotations on routes.
pub(super) fn write(file: &File) -> Result<Written, Problem> {
    let routes = export::routes(file)?;
    let mut notes: Vec<(String, Vec<Note>)> = Vec::new();
    let hosts = export::by_host(&routes);
    let by_host: HashMap<&str, &Named> =
        hosts.iter().map(|(host, here)| (host.as_str(), here[0].1)).collect();
    // The first policy of a host decides between a profile and annotations.
    let mut firsts = HashMap::new();
    for (route, named) in &routes {
        let first = by_host.get(export::host(route, named).as_str()).copied().unwrap_or(named);
        firsts.entry(named.name.as_str()).or_insert(first);
    }
    for named in &file.policies {
        let mut lines = Vec::new();
        let first = firsts.get(named.name.as_str()).copied().unwrap_or(named);
        match export::window(&first.policy) {
            Some(budget) => {
                profile_notes(&named.policy, &mut lines);
                if first.name == named.name {
                    let bucket = export::bucket_as_window(&named.policy);
                    lines.push(bucket.unwrap_or_else(|| budget_note(&budget)));
                }
            }
            None => annotation_notes(&named.policy, &mut lines),
        }
        lines.push(export::safety());
        lines.extend(export::dropped(&named.policy, &export::PROXY));
        notes.push((named.name.clone(), lines));
    }
    let mut text = HEAD.to_owned();
    for (host, here) in hosts {
        let Some((_, first)) = here.first() else { continue };
        if let Some(budget) = export::window(&first.policy) {
            text.push_str("---\n");
            text.push_str(&profile(&host, &budget, &here).to_yaml());
            for (_, named) in here.iter().filter(|(route, _)| route.key) {
                let why =
                    "a profile does not match headers, so it applies to requests without a key too";
                let lines = notes.iter_mut().find(|(name, _)| *name == named.name);
                if let Some((_, lines)) = lines {
                    lines.push(Note::dropped("route.key", why));
                }
            }
            export::note_shared_host(&host, first, &here, &mut notes);
            continue;
        }
        for (number, (route, named)) in here.iter().enumerate() {
            text.push_str("---\n");
            text.push_str(&annotated(&host, number, route, named).to_yaml());
        }
    }
    Ok(Written { text, notes })
}

fn profile(host: &str, budget: &WindowBudget, routes: &[&(Route, &Named)]) -> Value {
    let (name, namespace) = kube::service(host);
    let namespace = namespace.unwrap_or_else(|| "default".to_owned());
    let routes = routes.iter().map(|(route, named)| profile_route(route, &named.policy));
    let budget = Value::table([
        ("retryRatio", Value::from(budget.ratio)),
        ("minRetriesPerSecond", Value::from(per_second(budget))),
        ("ttl", Value::from(time::as_unit(budget.ttl))),
    ]);
    let metadata = [
        ("name", Value::from(format!("{name}.{namespace}.svc.cluster.local"))),
        ("namespace", Value::from(namespace)),
    ];
    Value::table([
        ("apiVersion", Value::from("linkerd.io/v1alpha2")),
        ("kind", Value::from("ServiceProfile")),
        ("metadata", Value::table(metadata)),
        ("spec", Value::table([("routes", Value::list(routes)), ("retryBudget", budget)])),
    ])
}

/// The floor in whole retries per second, rounded up.
fn per_second(budget: &WindowBudget) -> u32 {
    let Rate { count, per } = budget.floor;
    let exact = (Span::SECOND * u64::from(count)).as_nanos().div_ceil(per.as_nanos().max(1));
    u32::try_from(exact).unwrap_or(u32::MAX)
}

fn profile_route(route: &Route, policy: &Policy) -> Value {
    let regex = match route.path.as_deref().map(|path| (path, path.strip_suffix('*'))) {
        None => "/.*".to_owned(),
        Some((_, Some(prefix))) => format!("{}.*", prefix.replace('.', "\\.")),
        Some((path, None)) => path.replace('.', "\\."),
    };
    let path = ("pathRegex", Value::from(regex));
    let method = |method: &String| ("method", Value::from(method.as_str()));
    let condition = match route.methods.as_slice() {
        [] => Value::table([path]),
        [one] => Value::table([method(one), path]),
        all => {
            let any = Value::list(all.iter().map(|one| Value::table([method(one)])));
            Value::table([(
                "all",
                Value::list([Value::table([path]), Value::table([("any", any)])]),
            )])
        }
    };
    let status = |code: &u16| {
        let code = Value::from(u32::from(*code));
        let range = Value::table([("min", code.clone()), ("max", code)]);
        let condition = Value::table([("status", range)]);
        Value::table([("condition", condition), ("isFailure", Value::from(true))])
    };
    let codes = all_statuses(policy.retry_on());
    let mut fields = vec![
        ("name", Value::from(route.policy.as_str())),
        ("condition", condition),
        ("isRetryable", Value::from(policy.attempts() > 1 && !codes.is_empty())),
    ];
    if !codes.is_empty() {
        fields.push(("responseClasses", Value::list(codes.iter().map(status))));
    }
    if let Some(deadline) = policy.deadline_limit().span() {
        fields.push(("timeout", Value::from(time::as_unit(deadline))));
    }
    Value::table(fields)
}

fn budget_note(budget: &WindowBudget) -> Note {
    let seconds = per_second(budget);
    let is_floor = budget.floor.per == Span::SECOND || budget.floor.count == 0;
    let is_plain = budget.deposit == Deposit::Request && budget.bootstrap == 0;
    if is_floor && is_plain && budget.ttl == time::whole_ms(budget.ttl) {
        Note::kept("budget.window", "retryBudget")
    } else {
        let text = format!("retryBudget: deposits on request, a floor of {seconds} per second");
        Note::approximated("budget.window", text)
    }
}

fn profile_notes(policy: &Policy, notes: &mut Vec<Note>) {
    if policy.attempts() > 1 {
        let text = "a profile bounds attempts only by its budget";
        notes.push(Note::dropped("attempts", text));
    } else {
        notes.push(Note::kept("attempts", "isRetryable: false"));
    }
    if export::limit("deadline", policy.deadline_limit(), notes).is_none() {
        notes.push(Note::approximated("deadline", "none here, but 10s in a profile"));
    }
    if policy.attempt_timeout().is_some() {
        notes.push(Note::dropped("attempt_timeout", "a profile has no attempt timeout"));
    }
    notes.push(Note::dropped("backoff", "a profile has no waits"));
    conditions(policy, false, notes);
}

fn conditions(policy: &Policy, has_timeout: bool, notes: &mut Vec<Note>) {
    notes.push(Note::approximated("retry_on", "HTTP statuses instead of classes"));
    let lost = |class: &&Class| {
        policy.retry_on().has(**class) && !(**class == Class::Timeout && has_timeout)
    };
    let lost: Vec<_> = TRANSPORT.iter().filter(lost).map(|class| class.name()).collect();
    if !lost.is_empty() {
        let text = format!("{}: Linkerd retries responses only", lost.join(", "));
        notes.push(Note::dropped("retry_on", text));
    }
    if policy.retry_on().codes().iter().any(|code| *code < 100) {
        let text = "gRPC codes: add retry.linkerd.io/grpc to a GRPCRoute";
        notes.push(Note::dropped("retry_on", text));
    }
}

fn annotation_notes(policy: &Policy, notes: &mut Vec<Note>) {
    notes
        .push(Note::kept("attempts", format!("retry.linkerd.io/limit: {}", policy.attempts() - 1)));
    export::limit("deadline", policy.deadline_limit(), notes);
    if export::limit("attempt_timeout", policy.attempt_timeout_limit(), notes).is_some() {
        let repeats = policy.retry_on().has(Class::Timeout);
        if !repeats {
            let text = "an attempt that times out is retried";
            notes.push(Note::approximated("attempt_timeout", text));
        }
    }
    if *policy.budget() == Budget::None {
        notes.push(Note::kept("budget", "none"));
    } else {
        notes.push(Note::dropped("budget", "only a profile has a budget, a share of recent calls"));
    }
    let fixed = time::doubling(time::ENVOY_BASE);
    if *policy.backoff() == fixed {
        notes.push(Note::kept("backoff", "the same as Linkerd's, which is fixed"));
    } else {
        let (base, cap) = (fixed.base, fixed.cap);
        let text =
            format!("Linkerd's, which is fixed: doubles from {base} to {cap}, with full jitter");
        notes.push(Note::approximated("backoff", text));
    }
    conditions(policy, policy.attempt_timeout().is_some(), notes);
}

/// A route to the service of a host, with annotations.
fn annotated(host: &str, number: usize, route: &Route, named: &Named) -> Value {
    let policy = &named.policy;
    let (service, namespace) = kube::service(host);
    let retry = |name: &str| format!("{RETRY}{name}");
    let codes: Vec<_> = all_statuses(policy.retry_on()).iter().map(u16::to_string).collect();
    let mut annotations = Vec::new();
    if !codes.is_empty() {
        annotations.push((retry("http"), Value::from(codes.join(","))));
    }
    annotations.push((retry("limit"), Value::from((policy.attempts() - 1).to_string())));
    if let Some(timeout) = policy.attempt_timeout_limit().span() {
        annotations.push((retry("timeout"), Value::from(time::as_unit(timeout))));
    }
    if let Some(deadline) = policy.deadline_limit().span() {
        let timeout = Value::from(time::as_unit(deadline));
        annotations.push(("timeout.linkerd.io/request".to_owned(), timeout));
    }
    let suffix = if number == 0 { String::new() } else { format!("-{}", number + 1) };
    let name = format!("{}{suffix}", kube::object_name(&named.name));
    let mut metadata = vec![("name", Value::from(name))];
    metadata.extend(namespace.map(|namespace| ("namespace", Value::from(namespace))));
    metadata.push(("annotations", Value::table(annotations)));
    let service_port = [("name", Value::from(service)), ("port", Value::from(80))];
    let parent = [("group", Value::from("core")), ("kind", Value::from("Service"))];
    let parent = Value::table(parent.into_iter().chain(service_port.clone()));
    let rule = [
        ("matches", gateway_api::matches_of(route)),
        ("backendRefs", Value::list([Value::table(service_port)])),
    ];
    let spec =
        [("parentRefs", Value::list([parent])), ("rules", Value::list([Value::table(rule)]))];
    Value::table([
        ("apiVersion", Value::from("gateway.networking.k8s.io/v1")),
        ("kind", Value::from("HTTPRoute")),
        ("metadata", Value::table(metadata)),
        ("spec", Value::table(spec)),
    ])
}
