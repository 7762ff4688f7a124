//! Strategies for policies and policy files.

use std::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use redial_core::admit::budget::{
    Budget, Deposit, InflightBudget, ThrottlingBudget, TokenBudget, WindowBudget,
};
use redial_core::admit::{
    BreakerRule, CoolDownRule, Lookback, ParkRule, RateRule, StallRule, ThrottleRule,
};
use redial_core::decide::{Class, RetryOn};
use redial_core::fleet::{Location, SecretSource};
use redial_core::schedule::{Backoff, Growth, HedgeDelay, HedgeRule, HintRule, Jitter, TooLong};
use redial_core::{Draft, LONGEST_DURATION, Policy, Rate, Span, TimeLimit};
use redial_policy::file::{File, Layer, Named, Queue, Route, Setting, Upstream};

use crate::sidecars::sidecars;

const NS: Span = Span::from_nanos(1);
const MS: Span = Span::MILLISECOND;
const SECOND: Span = Span::SECOND;
const MINUTE: Span = Span::from_secs(60);

/// Any valid policy, with every budget, growth, jitter, hint and guard.
pub(crate) fn policies() -> BoxedStrategy<Policy> {
    let times = (limits(), limits(), limits());
    let rest = (retry_on(), any::<bool>(), any::<bool>());
    (
        prop_oneof![Just(4), 1..=10_u32, counts()],
        times,
        backoffs(),
        (hints(), option::of(hedges())),
        (budgets(), option::of("[a-m][a-z.:/_-]{0,8}")),
        rest,
        guards(),
    )
        .prop_map(|(attempts, times, backoff, (hint, hedge), (budget, fleet), rest, guards)| {
            let (deadline, timeout, connect) = times;
            let (retry_on, key, nested) = rest;
            let draft = Policy::draft().attempts(attempts).backoff(backoff).hint(hint);
            let draft = match hedge {
                Some(rule) => draft.hedge(rule),
                None => draft.without_hedge(),
            };
            let fleet = fleet.filter(|_| matches!(budget, Budget::Window(_)));
            let draft = fleet.into_iter().fold(draft.budget(budget), Draft::fleet);
            let draft = draft.retry_on(retry_on);
            let draft = if key { draft.require_key() } else { draft };
            let draft = if nested { draft.refuse_nested() } else { draft };
            let draft = limited(draft, deadline, timeout, connect);
            guards.on(draft).build().expect("the strategy makes valid policies")
        })
        .boxed()
}

fn limited(draft: Draft, deadline: TimeLimit, timeout: TimeLimit, connect: TimeLimit) -> Draft {
    let connect = connect.span().map(|connect| timeout.min(deadline).cap(connect));
    let timeout = timeout.span().map(|timeout| deadline.cap(timeout));
    let draft = match deadline.duration() {
        None => draft.without_deadline(),
        Some(deadline) => draft.deadline(deadline),
    };
    let draft = timeout.map(Span::into).into_iter().fold(draft, Draft::attempt_timeout);
    connect.map(Span::into).into_iter().fold(draft, Draft::connect_timeout)
}

pub(crate) fn counts() -> impl Strategy<Value = u32> {
    1..=1_000_000_u32
}

pub(crate) fn durations() -> impl Strategy<Value = Span> {
    let round = (1..=1000_u64, prop_oneof![Just(MS), Just(SECOND), Just(MINUTE)]);
    prop_oneof![round.prop_map(|(count, unit)| count * unit), spans(NS..=LONGEST_DURATION)]
}

/// Any length in this range.
fn spans(range: RangeInclusive<Span>) -> impl Strategy<Value = Span> {
    (range.start().as_nanos()..=range.end().as_nanos()).prop_map(Span::from_nanos)
}

fn limits() -> impl Strategy<Value = TimeLimit> {
    prop_oneof![
        Just(TimeLimit::NONE),
        Just(Span::from_secs(10).into()),
        durations().prop_map(Span::into)
    ]
}

fn ratios() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.1), Just(1.0), (1..=99_u32).prop_map(|n| f64::from(n) / 100.0), 1e-6..=1.0]
}

fn backoffs() -> BoxedStrategy<Backoff> {
    let growth = prop_oneof![
        Just(Growth::Exponential(2.0)),
        (1.0..=1000.0).prop_map(Growth::Exponential),
        Just(Growth::Linear),
        Just(Growth::Constant),
    ];
    let jitter = prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
        (0.0..=1.0).prop_map(Jitter::Around),
        (0.0..=1.0).prop_map(Jitter::Normal),
        durations().prop_map(Jitter::Added),
    ];
    (growth, durations(), durations(), jitter, any::<bool>())
        .prop_map(|(growth, one, other, jitter, clip)| {
            let (base, cap) = (one.min(other), one.max(other));
            let jitter = match jitter {
                Jitter::Added(most) => Jitter::Added(most.min(cap)),
                jitter => jitter,
            };
            Backoff { growth, base, cap, jitter, clip }
        })
        .boxed()
}

fn hints() -> BoxedStrategy<HintRule> {
    let too_long = prop_oneof![Just(TooLong::Stop), Just(TooLong::Clip)];
    let honour = (prop_oneof![Just(MINUTE), durations()], too_long, option::of(0.0..=1.0));
    prop_oneof![
        Just(HintRule::Ignore),
        Just(HintRule::default()),
        honour.prop_map(|(cap, too_long, spread)| HintRule::Honour { cap, too_long, spread }),
    ]
    .boxed()
}

fn hedges() -> BoxedStrategy<HedgeRule> {
    let quantile = prop_oneof![Just(0.5), Just(0.95), 0.001..0.999];
    let when = prop_oneof![
        durations().prop_map(HedgeDelay::After),
        Just(HedgeDelay::After(NS)),
        quantile.clone().prop_map(HedgeDelay::Quantile),
        quantile.prop_map(HedgeDelay::Share),
    ];
    (when, prop_oneof![Just(1.0), 0.01..=1000.0], 1..=10_u32, any::<bool>())
        .prop_map(|(when, multiple, most, overtaken)| HedgeRule { when, multiple, most, overtaken })
        .boxed()
}

fn budgets() -> BoxedStrategy<Budget> {
    let deposit = prop_oneof![Just(Deposit::Request), Just(Deposit::Success)];
    let window = (ratios(), 0..=1000_u32, spans(SECOND..=MINUTE), deposit, any::<u32>());
    let window = window.prop_map(|(ratio, floor, ttl, deposit, bootstrap)| {
        Budget::Window(WindowBudget {
            ratio,
            floor: Rate::per_second(floor),
            ttl,
            deposit,
            bootstrap,
        })
    });
    let costs = (counts(), counts(), counts());
    let earned = (0..=1_000_000_u32, prop_oneof![Just(0), counts()]);
    let floor = (1..=100_u32, durations()).prop_map(|(count, per)| Rate { count, per });
    let rest = (option::of(0..=1_000_000_u32), option::of(1.0..=1000.0), option::of(floor));
    let tokens = (counts(), costs, earned, rest).prop_map(|(capacity, costs, earned, rest)| {
        let [cost, timeout_cost, throttled_cost, bonus] =
            [costs.0, costs.1, costs.2, earned.1].map(|cost| cost.min(capacity));
        let (opening, slowdown, floor) = rest;
        Budget::Tokens(TokenBudget {
            capacity,
            cost,
            timeout_cost,
            throttled_cost,
            opening: opening.map(|tokens| tokens.min(capacity)),
            bootstrap: earned.0,
            bonus,
            slowdown,
            floor,
        })
    });
    let throttling = (1..=1000_u32, 0.001..=1000.0)
        .prop_map(|(capacity, ratio)| Budget::Throttling(ThrottlingBudget { capacity, ratio }));
    let inflight = (ratios(), 0..=1_000_000_u32)
        .prop_map(|(ratio, floor)| Budget::Inflight(InflightBudget { ratio, floor }));
    prop_oneof![
        Just(Budget::None),
        Just(Budget::default()),
        Just(Budget::Tokens(TokenBudget::default())),
        Just(Budget::Tokens(TokenBudget::earned())),
        Just(Budget::Inflight(InflightBudget::default())),
        window,
        tokens,
        throttling,
        inflight,
    ]
    .boxed()
}

fn retry_on() -> BoxedStrategy<RetryOn> {
    let classes = RetryOn::transient().classes().collect::<Vec<Class>>();
    let classes = proptest::sample::subsequence(classes.clone(), 0..=classes.len());
    let codes = vec(prop_oneof![1..=16_u16, 100..=599_u16], 0..5);
    let chosen = (classes, codes).prop_map(|(classes, codes)| {
        let list = classes.into_iter().fold(RetryOn::nothing(), RetryOn::class);
        codes.into_iter().fold(list, RetryOn::code)
    });
    prop_oneof![Just(RetryOn::transient()), chosen].boxed()
}

#[derive(Clone, Debug)]
struct Rules {
    breaker: Option<BreakerRule>,
    throttle: Option<ThrottleRule>,
    rate: Option<RateRule>,
    concurrency: Option<u32>,
    cooldown: Option<CoolDownRule>,
    stall: Option<StallRule>,
    park: Option<ParkRule>,
}

impl Rules {
    fn on(self, draft: Draft) -> Draft {
        let draft = self.breaker.into_iter().fold(draft, Draft::breaker);
        let draft = self.throttle.into_iter().fold(draft, Draft::throttle);
        let draft = self.rate.into_iter().fold(draft, Draft::rate);
        let draft = self.concurrency.into_iter().fold(draft, Draft::concurrency);
        let draft = self.cooldown.into_iter().fold(draft, Draft::cooldown);
        let draft = self.stall.into_iter().fold(draft.without_stall(), Draft::stall);
        self.park.into_iter().fold(draft.without_park(), Draft::park)
    }
}

fn guards() -> BoxedStrategy<Rules> {
    let throttle = (1.0..=1000.0, durations()).prop_map(|(k, window)| ThrottleRule { k, window });
    let throttle = prop_oneof![Just(ThrottleRule::default()), throttle];
    let rate = (1..=1000_u32, spans(SECOND..=MINUTE), 1..=1000_u32)
        .prop_map(|(count, per, burst)| RateRule { rate: Rate { count, per }, burst });
    let cooldown = (durations(), prop_oneof![Just(1024), counts()])
        .prop_map(|(every, places)| CoolDownRule { every, places });
    let stall = (counts(), 0.0..=1.0).prop_map(|(timeouts, most)| StallRule { timeouts, most });
    let park = (0.0..=1.0, counts()).prop_map(|(outage, most)| ParkRule { outage, most });
    (
        option::of(prop_oneof![Just(BreakerRule::default()), breakers()]),
        option::of(throttle),
        option::of(rate),
        option::of(counts()),
        option::of(cooldown),
        option::of(prop_oneof![Just(StallRule::default()), stall]),
        option::of(prop_oneof![Just(ParkRule::default()), park]),
    )
        .prop_map(|(breaker, throttle, rate, concurrency, cooldown, stall, park)| Rules {
            breaker,
            throttle,
            rate,
            concurrency,
            cooldown,
            stall,
            park,
        })
        .boxed()
}

pub(crate) fn breakers() -> BoxedStrategy<BreakerRule> {
    let lookback =
        prop_oneof![counts().prop_map(Lookback::Calls), durations().prop_map(Lookback::Time)];
    let slow = (ratios(), limits());
    let open = (durations(), 0.0..=1.0);
    (lookback, ratios(), slow, option::of(counts()), open, 1..=32767_u32)
        .prop_map(
            |(
                lookback,
                failure_ratio,
                (slow_ratio, slow_after),
                least,
                (open, open_spread),
                probes,
            )| {
                let most = if let Lookback::Calls(calls) = lookback { calls } else { 1_000_000 };
                let minimum_calls = least.map(|least| least.min(most));
                BreakerRule {
                    lookback,
                    failure_ratio,
                    slow_ratio,
                    slow_after,
                    minimum_calls,
                    open,
                    open_spread,
                    probes,
                }
            },
        )
        .boxed()
}

/// A short name, which may need quotes.
pub(crate) fn names() -> impl Strategy<Value = String> {
    "[a-z][a-z-]{0,8}|[A-Za-z0-9 ._/\"ö-]{1,8}"
}

pub(crate) fn settings() -> BoxedStrategy<Setting> {
    let rate = || (1..=1_000_000_u32, durations()).prop_map(|(count, per)| Rate { count, per });
    let queue = prop_oneof![Just(Queue::Unbounded), any::<u32>().prop_map(Queue::Bounded)];
    let layer =
        (names(), option::of(counts())).prop_map(|(name, attempts)| Layer { name, attempts });
    let numbers = (option::of(durations()), option::of(1..=u32::MAX), option::of(1.0..=1e6));
    let rates = (option::of(rate()), option::of(rate()));
    let rest = (option::of(any::<bool>()), option::of(durations()), option::of(queue));
    (numbers, rates, rest, vec(layer, 0..4))
        .prop_map(
            |(
                (slo, clients, multiplier),
                (calls, capacity),
                (synchronised, timer, queue),
                chain,
            )| {
                Setting {
                    slo,
                    clients,
                    calls,
                    capacity,
                    multiplier,
                    synchronised,
                    timer,
                    queue,
                    chain,
                }
            },
        )
        .boxed()
}

pub(crate) fn files() -> impl Strategy<Value = File> {
    let named = proptest::collection::btree_map(names(), (policies(), maybe(settings())), 1..4);
    let named = named.prop_map(|all| {
        let all = all.into_iter();
        all.map(|(name, (policy, setting))| Named { name, policy, setting }).collect::<Vec<_>>()
    });
    let routes = vec((routes(), any::<prop::sample::Index>()), 0..4);
    (named, maybe(settings()), routes, option::of(sidecars()), any::<bool>()).prop_map(
        |(policies, setting, routes, sidecar, own)| {
            let (proxy, mut upstreams) = sidecar.unwrap_or_default();
            let policy = |at: prop::sample::Index| at.get(&policies).name.clone();
            let mut names = upstreams.iter().map(|it: &Upstream| it.name.clone()).cycle();
            let mut upstream = || names.next().filter(|_| own);
            let routes = routes.into_iter().map(|(route, at)| Route {
                policy: policy(at),
                upstream: upstream(),
                ..route
            });
            let routes = routes.collect();
            for upstream in &mut upstreams {
                upstream.policy = own.then(|| policies[0].name.clone());
            }
            with_fleets(File { policies, routes, setting, proxy, upstreams, ..File::default() })
        },
    )
}

/// The file with a ledger for each fleet that its policies name.
pub(crate) fn with_fleets(mut file: File) -> File {
    for named in &file.policies {
        let Some(fleet) = named.policy.fleet() else { continue };
        if file.fleets.iter().any(|(name, _)| name == fleet) {
            continue;
        }
        let password = match fleet.len() % 3 {
            0 => None,
            1 => Some(SecretSource::Env("REDIS_PASSWORD".to_owned())),
            _ => Some(SecretSource::File("/run/secrets/\"redis\"".to_owned())),
        };
        let location = Location {
            redis: format!("rediss://redis-{}:6379/0", fleet.len()),
            user: password.as_ref().map(|_| "redial".to_owned()),
            password,
            ca_file: fleet.starts_with('a').then(|| "/etc/ca.pem".to_owned()),
        };
        file.fleets.push((fleet.to_owned(), location));
    }
    file
}

fn maybe<T: Default + Clone + std::fmt::Debug>(
    some: impl Strategy<Value = T>,
) -> impl Strategy<Value = T> {
    option::of(some).prop_map(Option::unwrap_or_default)
}

fn routes() -> BoxedStrategy<Route> {
    let methods = vec(prop_oneof![Just("GET"), Just("POST"), Just("M-SEARCH")], 0..3);
    (option::of("[a-z.]{1,9}"), option::of("/[a-z/]{0,9}\\*?"), methods, any::<bool>())
        .prop_map(|(host, path, methods, key)| {
            let methods = methods.into_iter().map(str::to_owned).collect();
            Route { host, path, methods, key, ..Route::default() }
        })
        .boxed()
}
