//! The guards with the name of a retry. Spring nests them as Retry ( CircuitBreaker ( RateLimiter ( TimeLimiter (
//! Bulkhead )))), so all of them apply to attempts.

use std::collections::HashSet;

use redial_core::admit::{BreakerRule, Lookback, RateRule};
use redial_core::{Draft, Rate, Span};

use super::super::import::Import;
use super::super::time::SHORTEST_DURATION;
use super::leaves::{self, Leaves, duration};
use super::read::Chain;
use crate::file::{Queue, Setting};
use crate::source::{Problem, TextSpan};
use crate::tree::Cursor;

pub(super) fn join(
    (all, name): (&[&Leaves<'_>], &str),
    mut draft: Draft,
    setting: &mut Setting,
    seen: &mut HashSet<TextSpan>,
    import: &mut Import<'_>,
) -> Draft {
    let named = |module: &str, import: &Import<'_>| {
        let has = all.iter().any(|leaves| !leaves.level(module, false, name).is_empty());
        has.then(|| Chain::new(all, module, name, &import.problems))
    };
    if let Some(chain) = named("circuitbreaker", import) {
        draft = draft.breaker(breaker(&chain, import));
        rest(&chain, &BREAKER[8..26], import);
        chain.unknown(&BREAKER, seen, import);
    }
    if let Some(chain) = named("timelimiter", import) {
        let text = "attempt_timeout: the time limiter is inside the retry, unless the aspect order is changed";
        let timeout = match chain.get("timeoutduration") {
            Some(here) => {
                import.kept(here, "attempt_timeout", text);
                import.problems.or(Span::SECOND, duration(here))
            }
            None => Span::SECOND,
        };
        rest(&chain, &["cancelRunningFuture"], import);
        chain.unknown(&["timeoutDuration", "cancelRunningFuture", "baseConfig"], seen, import);
        draft = draft.attempt_timeout(timeout.into());
    }
    if let Some(chain) = named("bulkhead", import) {
        let calls = chain.get("maxconcurrentcalls");
        if let Some(here) = calls {
            import.kept(here, "concurrency", "concurrency");
        }
        let calls = calls.map_or(Ok(25), |here| here.count(1..=1_000_000));
        let calls = import.problems.or(25, calls);
        rest(&chain, &["maxWaitDuration"], import);
        chain.unknown(&["maxConcurrentCalls", "maxWaitDuration", "baseConfig"], seen, import);
        draft = draft.concurrency(calls);
    }
    if let Some(chain) = named("ratelimiter", import) {
        draft = draft.rate(rate(&chain, import));
        rest(&chain, &RATE[2..6], import);
        chain.unknown(&RATE, seen, import);
    }
    if let Some(chain) = named("threadpoolbulkhead", import) {
        queue(&chain, setting, import);
        rest(&chain, &POOL[1..4], import);
        chain.unknown(&POOL, seen, import);
    }
    draft
}

/// The first eight are read; the last one names what is inherited.
const BREAKER: [&str; 27] = [
    "slidingWindowType",
    "slidingWindowSize",
    "minimumNumberOfCalls",
    "failureRateThreshold",
    "slowCallRateThreshold",
    "slowCallDurationThreshold",
    "waitDurationInOpenState",
    "permittedNumberOfCallsInHalfOpenState",
    "maxWaitDurationInHalfOpenState",
    "automaticTransitionFromOpenToHalfOpenEnabled",
    "registerHealthIndicator",
    "recordExceptions",
    "recordFailurePredicate",
    "ignoreExceptions",
    "ignoreExceptionPredicate",
    "eventConsumerBufferSize",
    "allowHealthIndicatorToFail",
    "writableStackTraceEnabled",
    "initialState",
    "recordResultPredicate",
    "ignoreClassBindingExceptions",
    "enableExponentialBackoff",
    "exponentialBackoffMultiplier",
    "exponentialMaxWaitDurationInOpenState",
    "enableRandomizedWait",
    "randomizedWaitFactor",
    "baseConfig",
];

const RATE: [&str; 7] = [
    "limitForPeriod",
    "limitRefreshPeriod",
    "timeoutDuration",
    "registerHealthIndicator",
    "subscribeForEvents",
    "eventConsumerBufferSize",
    "baseConfig",
];

const POOL: [&str; 5] =
    ["queueCapacity", "coreThreadPoolSize", "maxThreadPoolSize", "keepAliveDuration", "baseConfig"];

fn breaker(chain: &Chain<'_, '_>, import: &mut Import<'_>) -> BreakerRule {
    let by_time = chain.get("slidingwindowtype").is_some_and(|here| {
        import.kept(here, "breaker.lookback", "breaker.lookback");
        import.problems.or(false, by_time(here))
    });
    let mut count = |field: &str, ours: &'static str, default: u32| {
        let Some(here) = chain.get(field) else { return default };
        import.kept(here, ours, ours);
        import.problems.or(default, here.count(1..=1_000_000))
    };
    let size = count("slidingwindowsize", "breaker.lookback", 100);
    let minimum = count("minimumnumberofcalls", "breaker.minimum_calls", 100);
    let field = "permittednumberofcallsinhalfopenstate";
    let probes = count(field, "breaker.probes", 10).min(32_767);
    let mut percent = |field: &str, ours: &'static str, default: f64| {
        let Some(here) = chain.get(field) else { return default };
        import.kept(here, ours, ours);
        let ratio = here.number().and_then(|percent| {
            if percent > 0.0 && percent <= 100.0 {
                return Ok(percent / 100.0);
            }
            Err(here.problem(format_args!("must be above 0 and at most 100, but is {percent}")))
        });
        import.problems.or(default, ratio)
    };
    let failure_ratio = percent("failureratethreshold", "breaker.failure_ratio", 0.5);
    let slow_ratio = percent("slowcallratethreshold", "breaker.slow_ratio", 1.0);
    let mut time = |field: &str, ours: &'static str, default: Span| {
        let Some(here) = chain.get(field) else { return default };
        import.kept(here, ours, ours);
        import.problems.or(default, duration(here))
    };
    let slow_after = time("slowcalldurationthreshold", "breaker.slow_after", Span::from_secs(60));
    let open = time("waitdurationinopenstate", "breaker.open", Span::from_secs(60));
    let (lookback, minimum) = if by_time {
        (Lookback::Time(Span::from_secs(size.into())), minimum)
    } else {
        (Lookback::Calls(size), minimum.min(size))
    };
    BreakerRule {
        lookback,
        failure_ratio,
        slow_ratio,
        slow_after: Some(slow_after).filter(|time| !time.is_zero()).into(),
        minimum_calls: Some(minimum),
        open,
        open_spread: 0.0,
        probes,
    }
}

/// Whether a breaker looks back on a time instead of a number of calls.
fn by_time(here: &Cursor<'_>) -> Result<bool, Problem> {
    match leaves::plain(&here.scalar()?).as_str() {
        "countbased" => Ok(false),
        "timebased" => Ok(true),
        _ => {
            let problem = here.problem(format_args!("unknown type {}", here.node.value));
            Err(problem.help("use COUNT_BASED or TIME_BASED"))
        }
    }
}

fn rate(chain: &Chain<'_, '_>, import: &mut Import<'_>) -> RateRule {
    let count = chain.get("limitforperiod");
    let per = chain.get("limitrefreshperiod");
    let text = "rate: all permits of a period at once; there, callers wait for timeoutDuration";
    for here in [count, per].into_iter().flatten() {
        import.approximated(here, "rate", text);
    }
    let count = count.map_or(Ok(50), |here| here.count(1..=1_000_000));
    let count = import.problems.or(50, count);
    let per = per.map_or(Ok(Span::from_nanos(500)), duration);
    let per = import.problems.or(Span::SECOND, per).max(SHORTEST_DURATION);
    RateRule { rate: Rate { count, per }, burst: count }
}

fn queue(chain: &Chain<'_, '_>, setting: &mut Setting, import: &mut Import<'_>) {
    let places = chain.get("queuecapacity");
    if let Some(here) = places {
        import.kept(here, "setting.queue", "setting.queue");
    }
    let places = places.map_or(Ok(100), |here| here.count(0..=i32::MAX as u32));
    let places = import.problems.or(100, places);
    setting.queue =
        Some(if places == i32::MAX as u32 { Queue::Unbounded } else { Queue::Bounded(places) });
}

/// Notes on fields without a counterpart.
fn rest(chain: &Chain<'_, '_>, unread: &[&str], import: &mut Import<'_>) {
    for field in unread {
        if let Some(here) = chain.get(&leaves::plain(field)) {
            import.dropped(here, "no counterpart");
        }
    }
}
