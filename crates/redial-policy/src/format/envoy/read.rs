use std::collections::HashMap;

use redial_core::admit::budget::{Budget, InflightBudget};
use redial_core::decide::RetryOn;
use redial_core::schedule::{Backoff, HedgeRule};
use redial_core::{Draft, MS, NEVER, Nanos};

use super::super::Format;
use super::super::import::{Import, Metadata};
use super::super::time::{self, Timeouts, std};
use super::limits::{HUGE, Limits, Retries, percentage, queue};
use super::retry_on::Dialect;
use super::{
    HINT_CAP, RETRIES, below, camel, field, honoured, matching, may_hold, retry_on, retry_policy,
};
use crate::file::Setting;
use crate::found::Note;
use crate::inputs::{Document, Reading};
use crate::source::Problem;
use crate::tree::Cursor;

/// The default `timeout` of a route.
const ROUTE_TIMEOUT: Nanos = 15_000 * MS;
/// The default `connect_timeout` of a cluster.
const CONNECT_TIMEOUT: Nanos = 5_000 * MS;
const HEDGES: &str = "hedge_policy";
/// The most hedges of a policy.
const MOST_HEDGES: u32 = 10;
/// The default bound of a cluster on retries in flight.
const RETRIES_IN_FLIGHT: u32 = 3;

pub(super) fn read(documents: &[Document], reading: &mut Reading) {
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
    reading: &mut Reading,
) {
    let is_cluster = ["circuit_breakers", "connect_timeout", "load_assignment"]
        .iter()
        .any(|name| field(here, name).is_some());
    let name = here.get("name").and_then(|name| name.node.text()).filter(|_| is_cluster);
    if let Some(name) = name {
        match limits(document, here) {
            Ok(limits) => drop(clusters.insert(name, limits)),
            Err(problem) => reading.problems.push((document.source, problem)),
        }
        return;
    }
    below(here).for_each(|below| find_clusters(document, &below, clusters, reading));
}

fn limits<'a>(document: &'a Document, cluster: &Cursor<'a>) -> Result<Limits<'a>, Problem> {
    let mut import = Import::new(document, cluster);
    let connect_timeout = match field(cluster, "connect_timeout") {
        Some(here) => {
            import.kept(&here, "connect_timeout", "connect_timeout");
            time::above_zero(&here, time::seconds(&here)?)?
        }
        None => CONNECT_TIMEOUT,
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
        threshold_into(&threshold, &mut limits)?;
    }
    Ok(limits)
}

fn threshold_into(threshold: &Cursor<'_>, limits: &mut Limits<'_>) -> Result<(), Problem> {
    let import = &mut limits.import;
    // tidy-allow: the name in Envoy's API
    if let Some(here) = field(threshold, "max_retries") {
        limits.retries = Retries::at_most(here.count(0..=u32::MAX)?);
        limits.retries.note(&here, import);
    }
    if let Some(budget) = field(threshold, "retry_budget") {
        let share = field(&budget, "budget_percent").and_then(|here| here.get("value"));
        let percent = share.as_ref().map_or(Ok(20.0), percentage)?;
        let least = field(&budget, "min_retry_concurrency");
        let least = least.map_or(Ok(RETRIES_IN_FLIGHT), |here| here.count(0..=u32::MAX))?;
        limits.retries = Retries::share(percent, least);
        limits.retries.note(&budget, import);
        if let Some(interval) = field(&budget, "budget_interval") {
            import.dropped(&interval, "the budget counts requests in flight");
        }
    }
    if let Some(here) = field(threshold, "max_requests") {
        let most = here.count(0..=u32::MAX)?;
        limits.concurrency = Some(most).filter(|most| (1..HUGE).contains(most));
        match limits.concurrency {
            Some(_) => import.kept(&here, "concurrency", "concurrency"),
            None => import.dropped(&here, "concurrency must be 1 to 1000000"),
        }
    }
    if let Some(here) = field(threshold, "max_pending_requests") {
        limits.queue = Some(queue(here.count(0..=u32::MAX)?));
        import.kept(&here, "setting.queue", "setting.queue");
    }
    for other in ["max_connections", "max_connection_pools"] {
        if let Some(here) = field(threshold, other) {
            import.dropped(&here, "connections are not limited");
        }
    }
    Ok(())
}

struct Reader<'a, 'b> {
    document: &'a Document,
    clusters: &'b HashMap<&'a str, Limits<'a>>,
    reading: &'b mut Reading,
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
        let own = retry_policy(here);
        if let Some(routes) = field(here, "routes").filter(|routes| routes.node.list().is_some()) {
            let domains = field(here, "domains");
            for route in routes.items() {
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
        if let Some(retry) = &own {
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
        match draft(site, limits, &mut import) {
            Ok(draft) => {
                let name = site.name.or(cluster).unwrap_or_else(|| site.retry.path());
                let name = name.to_owned();
                let routes =
                    matching::read(site.matching.as_ref(), site.domains, &name, &mut import);
                let queue = limits.and_then(|limits| limits.queue);
                let setting = Setting { queue, ..Setting::default() };
                let format = Format::Envoy;
                import.finish(draft, Metadata { format, name, routes, setting }, self.reading);
            }
            Err(problem) => self.reading.problems.push((self.document.source, problem)),
        }
    }
}

/// The cluster of a route, or the first of several.
fn cluster<'a>(action: &Cursor<'a>) -> Option<&'a str> {
    let several = field(action, "weighted_clusters").and_then(|all| all.get("clusters"));
    let first = several.and_then(|all| all.items().next()).and_then(|one| one.get("name"));
    action.get("cluster").or(first).and_then(|name| name.node.text())
}

fn draft(
    site: &Site<'_, '_>,
    limits: Option<&Limits<'_>>,
    import: &mut Import<'_>,
) -> Result<Draft, Problem> {
    let retry = site.retry;
    let attempts = match field(retry, RETRIES) {
        Some(here) => import.retries(&here, 0)?,
        None => 2,
    };
    let draft = times(site, attempts, import)?;
    let backoff = backoff(retry, import)?;
    let draft = hint(retry, draft.backoff(backoff), import)?;
    let draft = on(retry, draft, import)?;
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
    Ok(draft)
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

fn times(site: &Site<'_, '_>, attempts: u32, import: &mut Import<'_>) -> Result<Draft, Problem> {
    let draft = Draft::bare(attempts);
    let timeouts = Timeouts {
        call: field(site.action, "timeout"),
        attempt: field(site.retry, "per_try_timeout"),
        default: if cluster(site.action).is_some() { ROUTE_TIMEOUT } else { NEVER },
        read: time::seconds,
    };
    let draft = timeouts.apply(draft, import)?;
    let Some(hedges) = &site.hedges else { return Ok(draft) };
    let on_timeout = field(hedges, "hedge_on_per_try_timeout");
    if !on_timeout.map_or(Ok(false), |here| here.boolean())? {
        import.dropped(hedges, "without hedge_on_per_try_timeout it has no effect");
        return Ok(draft);
    }
    let timeout = draft.clone().build().ok().and_then(|policy| policy.attempt_timeout());
    let Some(timeout) = timeout.filter(|_| attempts > 1) else {
        import.dropped(hedges, "without retries and a per_try_timeout it has no effect");
        return Ok(draft);
    };
    import.places.put("hedge.after", import.places.of("attempt_timeout"));
    let text = "hedge.after = per_try_timeout: the first attempt goes on, so there is no attempt_timeout; Envoy adds the \
                backoff";
    import.approximated(hedges, "hedge", text);
    let rule = HedgeRule::after(timeout).at_most((attempts - 1).min(MOST_HEDGES));
    Ok(draft.without_attempt_timeout().hedge(rule))
}

/// Full jitter over ceilings that double, by default from 25 ms up to ten times the base. Envoy's documentation has
/// base·(2^k − 1) instead; its code doubles.
fn backoff(retry: &Cursor<'_>, import: &mut Import<'_>) -> Result<Backoff, Problem> {
    let Some(here) = field(retry, "retry_back_off") else {
        return Ok(Backoff::exponential(std(25 * MS), std(250 * MS)));
    };
    let base = field(&here, "base_interval")
        .ok_or_else(|| here.problem("Envoy requires base_interval: add one, such as \"0.025s\""))?;
    let written = time::seconds(&base)?;
    let base = interval(written);
    let most = field(&here, "max_interval").map(|most| time::seconds(&most)).transpose()?;
    let cap = most.map_or_else(|| time::tenfold(base), interval);
    if base == written && most.is_none_or(|most| most == cap) {
        import.kept(&here, "backoff", "backoff, with full jitter over ceilings that double");
    } else {
        let text = "backoff, in whole milliseconds and at least 1ms, as in Envoy";
        import.approximated(&here, "backoff", text);
    }
    Ok(Backoff::exponential(std(base), std(cap)))
}

/// An interval as Envoy reads it: rounded down to whole milliseconds, but at least one.
fn interval(written: Nanos) -> Nanos {
    (written / MS).max(1).saturating_mul(MS)
}

fn hint(retry: &Cursor<'_>, draft: Draft, import: &mut Import<'_>) -> Result<Draft, Problem> {
    let Some(here) = field(retry, "rate_limited_retry_back_off") else { return Ok(draft) };
    let cap = field(&here, "max_interval");
    let cap = cap.map_or(Ok(HINT_CAP), |cap| time::seconds(&cap))?;
    let text = "hint; one above the cap is clipped here and ignored by Envoy";
    import.approximated(&here, "hint", text);
    Ok(draft.hint(honoured(cap)))
}

/// The retry conditions, and the requests that they apply to.
fn on(retry: &Cursor<'_>, draft: Draft, import: &mut Import<'_>) -> Result<Draft, Problem> {
    let listed = field(retry, "retriable_status_codes");
    let retry_on = match field(retry, "retry_on") {
        Some(here) => retry_on::read(&here, listed.as_ref(), Dialect::Envoy, import)?,
        None => {
            let text = "without retry_on Envoy retries nothing";
            import.notes.push(Note::approximated(retry.path(), text));
            RetryOn::nothing()
        }
    };
    let draft = draft.retry_on(retry_on);
    let Some(here) = field(retry, "retriable_request_headers") else { return Ok(draft) };
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
        return Ok(draft);
    }
    import.checks_safety = true;
    let methods: Vec<_> = here.items().flat_map(|header| matching::methods(&header)).collect();
    import.approximated(&here, "require_key", "safe requests only, which our runners check");
    let needs_key = !methods.iter().any(|method| matches!(method.as_str(), "PUT" | "DELETE"));
    Ok(if needs_key { draft.require_key() } else { draft })
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
