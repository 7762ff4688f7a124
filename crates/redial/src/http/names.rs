//! Every header that is read or written, in one place.
//!
//! | header | on | means |
//! |---|---|---|
//! | `redial-attempt` | requests from the second attempt on | which attempt this is |
//! | `redial-timeout-ms` | requests | how long the caller waits for this attempt |
//! | `redial-stop` | failed responses | a layer below has given up: do not retry; says why |
//! | `redial-slot` | refusals | the hint beside it is a booked slot, and the request was not processed |
//! | `idempotency-key` | requests | the same on every attempt |
//! | `idempotent-replayed` | responses | this is the stored response to an earlier request with that key; a failure is final |
//! | `retry-after`, `retry-after-ms`, `x-ms-retry-after-ms`, `x-amz-retry-after` | responses | hints |
//! | `ratelimit`, `ratelimit-remaining`, `ratelimit-reset` | responses | hints, when nothing remains |
//! | `x-envoy-attempt-count` | requests, when asked for; read by servers | the attempt, from 1 |
//! | `grpc-previous-rpc-attempts` | gRPC requests from the second attempt on | attempts before this one |
//! | `grpc-timeout` | gRPC requests | how long the caller waits for this attempt |
//! | `grpc-retry-pushback-ms` | gRPC trailers | a hint, or never to retry |

use http::HeaderName;

/// Which attempt this is, from the second on. A request without it is a first attempt.
pub const ATTEMPT: HeaderName = HeaderName::from_static("redial-attempt");
/// How long the caller waits for this attempt, in whole milliseconds: its own timeout, or what is left of the
/// deadline if that is less.
pub const TIMEOUT_MS: HeaderName = HeaderName::from_static("redial-timeout-ms");
/// A layer below has given up: the layers above do not retry. The value is the name of the reason.
pub const STOP: HeaderName = HeaderName::from_static("redial-stop");
/// The hint beside it is a slot that was booked for this caller. Only a request that was turned away
/// unprocessed gets one.
pub const SLOT: HeaderName = HeaderName::from_static("redial-slot");

/// The key that makes a request safe to repeat.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The response was stored for an earlier request with the same key.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// A hint in milliseconds.
pub const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// Azure's hint, in milliseconds.
pub const X_MS_RETRY_AFTER_MS: HeaderName = HeaderName::from_static("x-ms-retry-after-ms");
/// AWS's hint, in milliseconds.
pub const X_AMZ_RETRY_AFTER: HeaderName = HeaderName::from_static("x-amz-retry-after");
/// What remains of a quota, and in how many seconds there is more.
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// What remains of a quota, in its older form.
pub const RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
/// In how many seconds there is more, in its older form.
pub const RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Envoy's count of attempts, 1 on the first.
pub const X_ENVOY_ATTEMPT_COUNT: HeaderName = HeaderName::from_static("x-envoy-attempt-count");
/// gRPC's count of the attempts before this one.
pub const GRPC_PREVIOUS_RPC_ATTEMPTS: HeaderName =
    HeaderName::from_static("grpc-previous-rpc-attempts");
/// gRPC's hint, in milliseconds; negative means never.
pub const GRPC_RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
/// How long the caller waits for this attempt of a gRPC call.
pub const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// The status of a gRPC call.
pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
