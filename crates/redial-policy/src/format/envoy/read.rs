use std::collections::HashMap;

use redial_core::admit::budget::{Budget, InflightBudget};
use redial_core::decide::RetryOn;
use redial_core::schedule::{Backoff, HedgeRule};
use redial_core::{Draft, Span};

use super::super::Format;
use super::super::import::{Import, Metadata};
use super::super::time::{self, Timeouts};
use super::limits::{HUGE, Limits, Retries, percentage, queue};
use super::retry_on::Dialect;
use super::{
    HINT_CAP, RETRIES, below, camel, field, honoured, level, matching, may_hold, retry_on,
    retry_policy,
};
use crate::file::Setting;
use crate::format::{ConfigReading, Note};
use crate::tree::{Cursor, Document};

/// The default `timeout` of a route.
const ROUTE_TIMEOUT: Span = Span::from_secs(15);
/// The default `connect_timeout` of a cluster.
const CONNECT_TIMEOUT: Span = Span::from_secs(5);
const HEDGES: &str = "hedge_policy";
/// The most hedges of a policy.
const MOST_HEDGES: u32 = 10;
/// The default bound of a cluster on retries in flight.
const RETRIES_IN_FLIGHT: u32 = 3;

pub(super) fn read(documents: &[Document], reading: &mut ConfigReading) {
    let mine = || documents.iter().filter(|document| may_hold(&document.node));
    let mut clusters = HashMap::new();
    for document in mine() {
        find_clusters(document, &Cursor::top(&document.node), &mut clusters, reading);
    }
    for document in mine() {
        Reader { document, clusters: &clusters, reading }.visit(&Cursor::top(&document.node));
    }
}

fn find_clusters<'a>(
    document: &'a Document,
    here: &Cursor<'a>,
    clusters: &mut HashMap<&'a str, Limits<'a>>,
    reading: &mut ConfigReading,
) {
    let is_cluster = ["circuit_breakers", "connect_timeout", "load_assignment"]
        .iter()
        .any(|name| field(here, name).is_some());
    let name = here.get("name").and_then(|name| name.node.text()).filter(|_| is_cluster);
    if let Some(name) = name {
        let limits = limits(document, here);
        if limits.import.problems.is_empty() {
            clusters.insert(name, limits);
        } else {
            limits.import.report(reading);
        }
        return;
    }
    below(here).for_each(|below| find_clusters(document, &below, clusters, reading));
}

fn limits<'a>(document: &'a Document, cluster: &Cursor<'a>) -> Limits<'a> {
    let mut import = Import::new(document, cluster);
    let connect_timeout = match field(cluster, "connect_timeout") {
        Some(here) => {
            import.kept(&here, "connect_timeout", "connect_timeout");
            let timeout = time::seconds(&here);
            import.problems.ok(timeout.and_then(|span| time::above_zero(&here, span)))
        }
        None => Some(CONNECT_TIMEOUT),
    };
    let mut limits = Limits {
        import,
        retries: Retries::at_most(RETRIES_IN_FLIGHT),
        connect_timeout,
        concurrency: None,
        queue: Some(queue(1024)),
    };
    let breakers = field(cluster, "circuit_breakers");
    let thresholds = breakers.as_ref().and_then(|here| here.get("thresholds"));
    // There are two priorities.
    for threshold in thresholds.iter().flat_map(Cursor::items).take(8) {
        let priority = threshold.get("priority").and_then(|here| here.node.text());
        if priority.is_some_and(|priority| priority != "DEFAULT") {
            limits.import.dropped(&threshold, "a policy has one priority");
            continue;
        }
        threshold_into(&threshold, &mut limits);
    }
    limits
}

fn threshold_into(threshold: &Cursor<'_>, limits: &mut Limits<'_>) {
    let import = &mut limits.import;
    let count =
        |here: &Cursor<'_>, import: &Import<'_>| import.problems.or(1, here.count(0..=u32::MAX));
    // tidy-allow: the name in Envoy's API
    if let Some(here) = field(threshold, "max_retries") {
        limits.retries = Retries::at_most(count(&here, import));
        limits.retries.note(&here, import);
    }
    if let Some(budget) = field(threshold, "retry_budget") {
        let share = field(&budget, "budget_percent").and_then(|here| here.get("value"));
        let percent = import.problems.or(20.0, share.as_ref().map_or(Ok(20.0), percentage));
        let least = field(&budget, "min_retry_concurrency");
        let least = least.map_or(RETRIES_IN_FLIGHT, |here| count(&here, import));
        limits.retries = Retries::share(percent, least);
        limits.retries.note(&budget, import);
        if let Some(interval) = field(&budget, "budget_interval") {
            import.dropped(&interval, "the budget counts requests in flight");
        }
    }
    if let Some(here) = field(threshold, "max_requests") {
        let most = count(&here, import);
        limits.concurrency = Some(most).filter(|most| (1..HUGE).contains(most));
        match limits.concurrency {
            Some(_) => import.kept(&here, "concurrency", "concurrency"),
            None => import.dropped(&here, "concurrency must be 1 to 1000000"),
        }
    }
    if let Some(here) = field(threshold, "max_pending_requests") {
        limits.queue = Some(queue(count(&here, import)));
        import.kept(&here, "setting.queue", "setting.queue");
    }
    for other in ["max_connections", "max_connection_pools"] {
        if let Some(here) = field(threshold, other) {
            import.dropped(&here, "connections are not limited");
        }
    }
}

struct Reader<'a, 'b> {
    document: &'a Document,
    clusters: &'b HashMap<&'a str, Limits<'a>>,
    reading: &'b mut ConfigReading,
}

/// A retry policy with its surroundings.
struct Site<'a, 'b> {
    retry: &'b Cursor<'a>,
    /// The route action that has the policy, or inherits it.
    action: &'b Cursor<'a>,
    /// The action's own, or that of its virtual host.
    hedges: Option<Cursor<'a>>,
    matching: Option<Cursor<'a>>,
    domains: Option<&'b Cursor<'a>>,
    name: Option<&'a str>,
}

impl<'a> Reader<'a, '_> {
    fn visit(&mut self, here: &Cursor<'a>) {
        let is_misplaced = level::check(self.document, here, self.reading);
        let own = retry_policy(here);
        if let Some(routes) = field(here, "routes").filter(|routes| routes.node.list().is_some()) {
            let domains = field(here, "domains");
            for route in routes.items() {
                level::check(self.document, &route, self.reading);
                let Some(action) = field(&route, "route") else {
                    self.visit(&route);
                    continue;
                };
                let policy = field(&action, "retry_policy").or_else(|| own.clone());
                let hedges = field(&action, HEDGES).or_else(|| field(here, HEDGES));
                let name = route.get("name").and_then(|name| name.node.text());
                if let Some(retry) = &policy {
                    let (action, domains) = (&action, domains.as_ref());
                    let matching = field(&route, "match");
                    self.found(&Site { retry, action, hedges, matching, domains, name });
                }
            }
            return;
        }
        if let Some(retry) = own.as_ref().filter(|_| !is_misplaced) {
            let name = here.get("name").and_then(|name| name.node.text());
            let (hedges, matching, domains) = (field(here, HEDGES), None, None);
            return self.found(&Site { retry, action: here, hedges, matching, domains, name });
        }
        below(here).for_each(|below| self.visit(&below));
    }

    fn found(&mut self, site: &Site<'a, '_>) {
        let mut import = Import::new(self.document, site.retry);
        let cluster = cluster(site.action);
        let limits = cluster.and_then(|name| self.clusters.get(name));
        let draft = draft(site, limits, &mut import);
        let name = site.name.or(cluster).unwrap_or_else(|| site.retry.path()).to_owned();
        let routes = matching::read(site.matching.as_ref(), site.domains, &name, &mut import);
        let queue = limits.and_then(|limits| limits.queue);
        let setting = Setting { queue, ..Setting::default() };
        import.finish(
            draft,
            Metadata { format: Format::Envoy, name, routes, setting },
            self.reading,
        );
    }
}

/// The cluster of a route, or the first of several.
fn cluster<'a>(action: &Cursor<'a>) -> Option<&'a str> {
    let several = field(action, "weighted_clusters").and_then(|all| all.get("clusters"));
    let first = several.and_then(|all| all.items().next()).and_then(|one| one.get("name"));
    action.get("cluster").or(first).and_then(|name| name.node.text())
}

fn draft(site: &Site<'_, '_>, limits: Option<&Limits<'_>>, import: &mut Import<'_>) -> Draft {
    let retry = site.retry;
    let attempts = field(retry, RETRIES).and_then(|here| import.retries(&here, 0)).unwrap_or(2);
    let draft = times(site, attempts, import);
    let backoff = backoff(retry, import);
    let draft = hint(retry, draft.backoff(backoff), import);
    let draft = on(retry, draft, import);
    let draft = guards(draft, limits, site, import);
    if let Some(here) = field(site.action, "weighted_clusters") {
        import
            .notes
            .push(Note::approximated(here.path(), "the limits are those of the first cluster"));
    }
    for (name, why) in NO_COUNTERPART {
        if let Some(here) = field(retry, name).or_else(|| field(site.action, name)) {
            import.dropped(&here, why);
        }
    }
    let as_written = |name: &&str| match retry.get(&camel(name)) {
        Some(_) => camel(name),
        None => (*name).to_owned(),
    };
    let known: Vec<String> = FIELDS.iter().map(as_written).collect();
    import.unknown_but(retry, &known.iter().map(String::as_str).collect::<Vec<_>>());
    draft
}

const NO_COUNTERPART: [(&str, &str); 6] = [
    ("per_try_idle_timeout", "a policy has no idle timeout"),
    ("retry_priority", "a policy does not select hosts"),
    ("retry_host_predicate", "a policy does not select hosts"),
    ("host_selection_retry_max_attempts", "a policy does not select hosts"),
    ("retry_options_predicates", "a policy does not select hosts"),
    ("retriable_headers", "a policy does not match response headers"),
];

/// All fields of a retry policy.
const FIELDS: [&str; 13] = [
    "retry_on",
    RETRIES,
    "per_try_timeout",
    "per_try_idle_timeout",
    "retry_priority",
    "retry_host_predicate",
    "retry_options_predicates",
    "host_selection_retry_max_attempts",
    "retriable_status_codes",
    "retry_back_off",
    "rate_limited_retry_back_off",
    "retriable_headers",
    "retriable_request_headers",
];

fn times(site: &Site<'_, '_>, attempts: u32, import: &mut Import<'_>) -> Draft {
    let draft = Draft::bare(attempts);
    let timeouts = Timeouts {
        call: field(site.action, "timeout"),
        attempt: field(site.retry, "per_try_timeout"),
        default: cluster(site.action).map(|_| ROUTE_TIMEOUT).into(),
        read: time::seconds,
    };
    let draft = timeouts.apply(draft, import);
    let Some(hedges) = &site.hedges else { return draft };
    let on_timeout = field(hedges, "hedge_on_per_try_timeout");
    if !on_timeout.is_some_and(|here| import.problems.or(false, here.boolean())) {
        import.dropped(hedges, "without hedge_on_per_try_timeout it has no effect");
        return draft;
    }
    let timeout = draft.clone().build().ok().and_then(|policy| policy.attempt_timeout());
    let Some(timeout) = timeout.filter(|_| attempts > 1) else {
        import.dropped(hedges, "without retries and a per_try_timeout it has no effect");
        return draft;
    };
    import.places.put("hedge.after", import.places.of("attempt_timeout"));
    let text = "hedge.after = per_try_timeout: the first attempt goes on, so there is no attempt_timeout; Envoy adds the \
                backoff";
    import.approximated(hedges, "hedge", text);
    let rule = HedgeRule::after(timeout).at_most((attempts - 1).min(MOST_HEDGES));
    draft.without_attempt_timeout().hedge(rule)
}

/// Full jitter over ceilings that double, by default from 25 ms up to ten times the base. Envoy's documentation has
/// base·(2^k − 1) instead; its code doubles.
fn backoff(retry: &Cursor<'_>, import: &mut Import<'_>) -> Backoff {
    let default = time::doubling(time::ENVOY_BASE);
    let Some(here) = field(retry, "retry_back_off") else { return default };
    let most = field(&here, "max_interval");
    let most = most.and_then(|most| import.problems.ok(time::seconds(&most)));
    let base = field(&here, "base_interval")
        .ok_or_else(|| here.problem("Envoy requires base_interval: add one, such as \"0.025s\""));
    let written = base.and_then(|base| time::seconds(&base));
    let Some(written) = import.problems.ok(written) else { return default };
    let base = interval(written);
    let cap = most.map_or_else(|| time::tenfold(base), interval);
    if base == written && most.is_none_or(|most| most == cap) {
        import.kept(&here, "backoff", "backoff, with full jitter over ceilings that double");
    } else {
        let text = "backoff, in whole milliseconds and at least 1ms, as in Envoy";
        import.approximated(&here, "backoff", text);
    }
    Backoff::exponential(base.into(), cap.into())
}

/// An interval as Envoy reads it: rounded down to whole milliseconds, but at least one.
fn interval(written: Span) -> Span {
    written.as_millis().max(1) * Span::MILLISECOND
}

fn hint(retry: &Cursor<'_>, draft: Draft, import: &mut Import<'_>) -> Draft {
    let Some(here) = field(retry, "rate_limited_retry_back_off") else { return draft };
    let cap = field(&here, "max_interval").map_or(Ok(HINT_CAP), |cap| time::seconds(&cap));
    let cap = import.problems.or(HINT_CAP, cap);
    let text = "hint; one above the cap is clipped here and ignored by Envoy";
    import.approximated(&here, "hint", text);
    draft.hint(honoured(cap))
}

/// The retry conditions, and the requests that they apply to.
fn on(retry: &Cursor<'_>, draft: Draft, import: &mut Import<'_>) -> Draft {
    let listed = field(retry, "retriable_status_codes");
    let retry_on = match field(retry, "retry_on") {
        Some(here) => retry_on::read(&here, listed.as_ref(), Dialect::Envoy, import),
        None => {
            let text = "without retry_on Envoy retries nothing";
            import.notes.push(Note::approximated(retry.path(), text));
            RetryOn::nothing()
        }
    };
    let draft = draft.retry_on(retry_on);
    let Some(here) = field(retry, "retriable_request_headers") else { return draft };
    // A request is retried if any of these matches it, so all of them must match only safe requests.
    let is_safe = |header: Cursor<'_>| {
        let methods = matching::methods(&header);
        let idempotent = methods.iter().map(String::as_str).all(|method| {
            matching::SAFE_METHODS.contains(&method)
                || matching::IDEMPOTENT_METHODS.contains(&method)
        });
        matching::is_key(&header) || (idempotent && !methods.is_empty())
    };
    if !here.items().all(is_safe) {
        import.dropped(&here, "only idempotent methods and keys are supported");
        return draft;
    }
    import.checks_safety = true;
    let methods: Vec<_> = here.items().flat_map(|header| matching::methods(&header)).collect();
    import.approximated(&here, "require_key", "safe requests only, which our runners check");
    let needs_key = !methods.iter().any(|method| matches!(method.as_str(), "PUT" | "DELETE"));
    if needs_key { draft.require_key() } else { draft }
}

/// Adds the limits of the cluster, or Envoy's defaults if the cluster was not read.
fn guards(
    draft: Draft,
    limits: Option<&Limits<'_>>,
    site: &Site<'_, '_>,
    import: &mut Import<'_>,
) -> Draft {
    let at_most = Budget::Inflight(InflightBudget::new(0.0, RETRIES_IN_FLIGHT));
    let Some(limits) = limits else {
        let text = "the cluster was not found: 3 retries in flight, Envoy's default";
        import.notes.push(Note::approximated(site.action.path(), text));
        return draft.budget(at_most);
    };
    import.join(&limits.import);
    limits.apply(draft)
}
