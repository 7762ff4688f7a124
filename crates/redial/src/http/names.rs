//! The names of all headers that are read or written.
//!
//! | header | on | means |
//! |---|---|---|
//! | `redial-attempt` | requests from the second attempt on | the number of the attempt |
//! | `redial-attempts` | responses, if configured | how many attempts were made for it |
//! | `redial-parked` | responses of the sidecar to calls that were parked | for how long, in seconds |
//! | `redial-timeout-ms` | requests | how long the caller waits for this attempt |
//! | `redial-stop` | failed responses | a layer below has given up: do not retry; the value is the reason |
//! | `redial-slot` | rejections | the hint is a booked slot, and the request was not processed |
//! | `idempotency-key` | requests | the same on every attempt |
//! | `idempotent-replayed` | responses | this is the stored response to an earlier request with that key; a failure is final |
//! | `retry-after`, `retry-after-ms`, `x-ms-retry-after-ms`, `x-amz-retry-after` | responses | hints |
//! | `ratelimit`, `ratelimit-remaining`, `ratelimit-reset` | responses | hints, if nothing remains |
//! | `x-envoy-attempt-count` | requests, if configured; read by servers | the attempt, from 1 |
//! | `grpc-previous-rpc-attempts` | gRPC requests from the second attempt on | attempts before this one |
//! | `grpc-timeout` | gRPC requests | how long the caller waits for this attempt |
//! | `grpc-retry-pushback-ms` | gRPC trailers | a hint, or not to retry |

use http::HeaderName;

/// The number of the attempt, from the second on. A request without it is a first attempt.
pub const ATTEMPT: HeaderName = HeaderName::from_static("redial-attempt");
/// How many attempts were made for a response.
pub const ATTEMPTS: HeaderName = HeaderName::from_static("redial-attempts");
/// For how long a call was parked before its response, in seconds with three decimals.
pub const PARKED: HeaderName = HeaderName::from_static("redial-parked");
/// How long the caller waits for this attempt, in milliseconds: the lesser of its timeout and the rest of the deadline.
pub const TIMEOUT_MS: HeaderName = HeaderName::from_static("redial-timeout-ms");
/// A layer below has given up: the layers above do not retry. The value is the name of the reason.
pub const STOP: HeaderName = HeaderName::from_static("redial-stop");
/// The hint is a slot that was booked for this caller. Only a request that was rejected unprocessed gets one.
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
/// The rest of a quota, and the seconds until it is reset.
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The rest of a quota, in the older form.
pub const RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
/// The seconds until a quota is reset, in the older form.
pub const RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Envoy's count of attempts, 1 on the first.
pub const X_ENVOY_ATTEMPT_COUNT: HeaderName = HeaderName::from_static("x-envoy-attempt-count");
/// gRPC's count of earlier attempts.
pub const GRPC_PREVIOUS_RPC_ATTEMPTS: HeaderName =
    HeaderName::from_static("grpc-previous-rpc-attempts");
/// gRPC's hint, in milliseconds; negative means not to retry.
pub const GRPC_RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
/// How long the caller waits for this attempt of a gRPC call.
pub const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// The status of a gRPC call.
pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
