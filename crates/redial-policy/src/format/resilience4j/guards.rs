//! What stands around a retry of the same name. Spring nests them as Retry ( CircuitBreaker ( RateLimiter ( TimeLimiter (
//! Bulkhead ))), so all of them see attempts.

use std::collections::HashSet;
use std::time::Duration;

use redial_core::admit::{BreakerRule, Lookback, RateRule};
use redial_core::{Draft, NEVER, Rate};

use super::super::account::Account;
use super::leaves::{self, Leaves, duration};
use super::read::Chain;
use crate::file::{Queue, Setting};
use crate::source::{Problem, Span};

pub(super) fn join(
    (all, name): (&[&Leaves<'_>], &str),
    mut draft: Draft,
    setting: &mut Setting,
    seen: &mut HashSet<Span>,
    account: &mut Account<'_>,
) -> Result<Draft, Problem> {
    let named = |module: &str| {
        let has = all.iter().any(|leaves| !leaves.level(module, false, name).is_empty());
        has.then(|| Chain::new(all, module, name)).transpose()
    };
    if let Some(chain) = named("circuitbreaker")? {
        draft = draft.breaker(breaker(&chain, account)?);
        rest(&chain, &BREAKER[8..26], account);
        chain.unknown(&BREAKER, seen, account);
    }
    if let Some(chain) = named("timelimiter")? {
        let text = "attempt_timeout: the time limiter is inside of the retry, unless the aspect orders say otherwise";
        let timeout = match chain.get("timeoutduration") {
            Some(here) => {
                account.kept(here, "attempt_timeout", text);
                duration(here)?
            }
            None => 1_000_000_000,
        };
        rest(&chain, &["cancelRunningFuture"], account);
        chain.unknown(&["timeoutDuration", "cancelRunningFuture", "baseConfig"], seen, account);
        draft = draft.attempt_timeout(Duration::from_nanos(timeout));
    }
    if let Some(chain) = named("bulkhead")? {
        let calls = chain.get("maxconcurrentcalls");
        if let Some(here) = calls {
            account.kept(here, "concurrency", "concurrency");
        }
        let calls = calls.map_or(Ok(25), |here| here.count(1..=1_000_000))?;
        rest(&chain, &["maxWaitDuration"], account);
        chain.unknown(&["maxConcurrentCalls", "maxWaitDuration", "baseConfig"], seen, account);
        draft = draft.concurrency(calls);
    }
    if let Some(chain) = named("ratelimiter")? {
        draft = draft.rate(rate(&chain, account)?);
        rest(&chain, &RATE[2..6], account);
        chain.unknown(&RATE, seen, account);
    }
    if let Some(chain) = named("threadpoolbulkhead")? {
        queue(&chain, setting, account)?;
        rest(&chain, &POOL[1..4], account);
        chain.unknown(&POOL, seen, account);
    }
    Ok(draft)
}

/// The first eight are read, the last is the way to more.
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

fn breaker(chain: &Chain<'_, '_>, account: &mut Account<'_>) -> Result<BreakerRule, Problem> {
    let mut count = |field: &str, ours: &'static str, default: u32| {
        let Some(here) = chain.get(field) else { return Ok::<u32, Problem>(default) };
        account.kept(here, ours, ours);
        here.count(1..=1_000_000)
    };
    let size = count("slidingwindowsize", "breaker.lookback", 100)?;
    let minimum = count("minimumnumberofcalls", "breaker.minimum_calls", 100)?;
    let field = "permittednumberofcallsinhalfopenstate";
    let probes = count(field, "breaker.probes", 10)?.min(32_767);
    let mut percent = |field: &str, ours: &'static str, default: f64| {
        let Some(here) = chain.get(field) else { return Ok::<f64, Problem>(default) };
        account.kept(here, ours, ours);
        match here.number()? {
            percent if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
            percent => {
                Err(here.wrong(format_args!("must be above 0 and at most 100, but is {percent}")))
            }
        }
    };
    let failure_ratio = percent("failureratethreshold", "breaker.failure_ratio", 0.5)?;
    let slow_ratio = percent("slowcallratethreshold", "breaker.slow_ratio", 1.0)?;
    let mut time = |field: &str, ours: &'static str, default: u64| {
        let Some(here) = chain.get(field) else { return Ok::<u64, Problem>(default) };
        account.kept(here, ours, ours);
        duration(here)
    };
    let slow_after = time("slowcalldurationthreshold", "breaker.slow_after", 60_000_000_000)?;
    let open = time("waitdurationinopenstate", "breaker.open", 60_000_000_000)?;
    let by_time = match chain.get("slidingwindowtype") {
        None => false,
        Some(here) => {
            account.kept(here, "breaker.lookback", "breaker.lookback");
            match leaves::plain(&here.word()?).as_str() {
                "countbased" => false,
                "timebased" => true,
                _ => {
                    let problem = here.wrong(format_args!("there is no {}", here.node.value));
                    return Err(problem.help("there are COUNT_BASED and TIME_BASED"));
                }
            }
        }
    };
    let (lookback, minimum) = if by_time {
        (Lookback::Time(u64::from(size) * 1_000_000_000), minimum)
    } else {
        (Lookback::Calls(size), minimum.min(size))
    };
    Ok(BreakerRule {
        lookback,
        failure_ratio,
        slow_ratio,
        slow_after: if slow_after == 0 { NEVER } else { slow_after },
        minimum_calls: Some(minimum),
        open,
        open_spread: 0.0,
        probes,
    })
}

fn rate(chain: &Chain<'_, '_>, account: &mut Account<'_>) -> Result<RateRule, Problem> {
    let count = chain.get("limitforperiod");
    let per = chain.get("limitrefreshperiod");
    let text = "rate: all of a period's permits at once; callers wait there for timeoutDuration";
    for here in [count, per].into_iter().flatten() {
        account.approximated(here, "rate", text);
    }
    let count = count.map_or(Ok(50), |here| here.count(1..=1_000_000))?;
    let per = per.map_or(Ok(500), duration)?.max(1);
    Ok(RateRule { rate: Rate { count, per }, burst: count })
}

fn queue(
    chain: &Chain<'_, '_>,
    setting: &mut Setting,
    account: &mut Account<'_>,
) -> Result<(), Problem> {
    let places = chain.get("queuecapacity");
    if let Some(here) = places {
        account.kept(here, "queue", "setting.queue");
    }
    let places = places.map_or(Ok(100), |here| here.count(0..=i32::MAX as u32))?;
    setting.queue =
        Some(if places == i32::MAX as u32 { Queue::Unbounded } else { Queue::Bounded(places) });
    Ok(())
}

/// The fields that nothing above has read.
fn rest(chain: &Chain<'_, '_>, unread: &[&str], account: &mut Account<'_>) {
    for field in unread {
        if let Some(here) = chain.get(&leaves::plain(field)) {
            account.dropped(here, "no counterpart");
        }
    }
}
