use redial_core::{DurationText, Nanos};

use crate::format::{Format, dotnet, time};

/// Says what to write in a config's own words: whoever has to change a `maxAttempts` should not have to
/// translate.
#[derive(Clone, Copy)]
pub(super) struct Words(pub(super) Format);

/// A field of ours, and what Envoy, Istio, Linkerd, Gateway API, gRPC, resilience4j, AWS and .NET call it; empty where it
/// cannot be said.
const NAMES: &[(&str, [&str; 8])] = &[
    (
        "attempts",
        [
            "num_retries", // tidy-allow: the name in Envoy's API
            "retries.attempts",
            "retry.linkerd.io/limit",
            "retry.attempts",
            "maxAttempts",
            "maxAttempts",
            "max_attempts",
            "Retry.MaxRetryAttempts",
        ],
    ),
    (
        "attempt_timeout",
        [
            "per_try_timeout",
            "retries.perTryTimeout",
            "retry.linkerd.io/timeout",
            "timeouts.backendRequest",
            "",
            "",
            "",
            "AttemptTimeout.Timeout",
        ],
    ),
    (
        "deadline",
        [
            "timeout",
            "timeout",
            "timeout.linkerd.io/request",
            "timeouts.request",
            "timeout",
            "",
            "",
            "TotalRequestTimeout.Timeout",
        ],
    ),
    (
        "backoff.base",
        [
            "retry_back_off.base_interval",
            "retries.backoff",
            "",
            "retry.backoff",
            "initialBackoff",
            "waitDuration",
            "",
            "Retry.Delay",
        ],
    ),
    (
        "backoff.cap",
        [
            "retry_back_off.max_interval",
            "",
            "",
            "",
            "maxBackoff",
            "exponentialMaxWaitDuration",
            "",
            "Retry.MaxDelay",
        ],
    ),
    ("backoff.jitter", ["", "", "", "", "", "enableRandomizedWait", "", "Retry.UseJitter"]),
    ("hint", ["rate_limited_retry_back_off", "", "", "", "", "", "", ""]),
    (
        "budget",
        [
            "circuit_breakers.thresholds[].retry_budget",
            "trafficPolicy.retryBudget",
            "spec.retryBudget",
            "retryConstraint.budget",
            "retryThrottling",
            "",
            "retry_mode",
            "",
        ],
    ),
    (
        "retry_on",
        [
            "retry_on",
            "retries.retryOn",
            "retry.linkerd.io/http",
            "retry.codes",
            "retryableStatusCodes",
            "retryExceptions",
            "",
            "",
        ],
    ),
    ("breaker.lookback", ["", "", "", "", "", "slidingWindowSize", "", ""]),
];

impl Words {
    /// What a field of ours is called there, if it can be said.
    pub(super) fn name(self, field: &'static str) -> Option<&'static str> {
        let column = match self.0 {
            Format::Redial => return Some(field),
            Format::Envoy => 0,
            Format::Istio => 1,
            Format::Linkerd => 2,
            Format::GatewayApi => 3,
            Format::Grpc => 4,
            Format::Resilience4j => 5,
            Format::Aws => 6,
            Format::DotNet => 7,
        };
        let (_, names) = NAMES.iter().find(|(ours, _)| *ours == field)?;
        Some(names[column]).filter(|name| !name.is_empty())
    }

    /// "set `per_try_timeout` to 2s", or what to do where it cannot be said.
    pub(super) fn set(self, field: &'static str, value: impl std::fmt::Display) -> String {
        match (self.name(field), self.0) {
            (Some(name), Format::Redial) => format!("write `{name} = {value}`"),
            (Some(name), _) => format!("set `{name}` to {value}"),
            (None, format) => {
                format!("{} cannot say it: do it where the calls are made", title(format))
            }
        }
    }

    /// The same for a duration, as the format writes it.
    pub(super) fn set_time(self, field: &'static str, nanos: Nanos) -> String {
        self.set(field, self.time(nanos))
    }

    fn time(self, nanos: Nanos) -> String {
        match self.0 {
            Format::Redial => format!("\"{}\"", DurationText(nanos)),
            Format::Envoy | Format::Grpc => time::as_seconds(nanos),
            Format::GatewayApi => time::as_parts(nanos),
            Format::DotNet => dotnet::as_span(nanos),
            Format::Istio | Format::Linkerd => time::as_unit(nanos),
            Format::Resilience4j | Format::Aws => DurationText(nanos).to_string(),
        }
    }

    /// The same for attempts, which some systems count as retries.
    pub(super) fn set_attempts(self, attempts: u32) -> String {
        if self.counts_retries() {
            let retries = attempts - 1;
            return self.set("attempts", format_args!("{retries}, which is {attempts} attempts"));
        }
        self.set("attempts", attempts)
    }

    fn counts_retries(self) -> bool {
        use Format::{DotNet, Envoy, GatewayApi, Istio, Linkerd};
        matches!(self.0, Envoy | Istio | Linkerd | GatewayApi | DotNet)
    }
}

fn title(format: Format) -> &'static str {
    match format {
        Format::Redial => "a policy file",
        Format::Envoy => "Envoy",
        Format::Istio => "Istio",
        Format::Linkerd => "Linkerd",
        Format::GatewayApi => "the Gateway API",
        Format::Grpc => "gRPC's service config",
        Format::Resilience4j => "resilience4j",
        Format::Aws => "the shared config of AWS",
        Format::DotNet => "appsettings.json",
    }
}
