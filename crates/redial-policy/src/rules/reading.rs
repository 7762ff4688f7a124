//! What only a reader can notice: the policy that it makes no longer shows it.

use super::Rule;
use crate::finding::Severity;

/// A condition that the system does not know, and ignores.
pub static UNKNOWN_RETRY_ON: Rule = Rule {
    name: "unknown-retry-on",
    severity: Severity::Error,
    about: "a retry condition is misspelt, and the system ignores it without a word",
    origin: "Envoy accepts any token with a warning in its log",
    check: None,
};

/// A field whose name says attempts counts retries, or the other way round.
pub static ATTEMPTS_OR_RETRIES: Rule = Rule {
    name: "attempts-or-retries",
    severity: Severity::Note,
    about: "the number does not count what its name says",
    origin: "Envoy, Istio, Linkerd, Gateway API and .NET count retries; gRPC, resilience4j and AWS count attempts",
    check: None,
};

/// Annotations that have no effect, because something else replaces them.
pub static SHADOWED_ANNOTATIONS: Rule = Rule {
    name: "shadowed-annotations",
    severity: Severity::Warning,
    about: "a ServiceProfile replaces the annotations of its Service",
    origin: "Linkerd",
    check: None,
};

/// A number that the system replaces by another one without saying so.
pub static SILENTLY_CLAMPED: Rule = Rule {
    name: "silently-clamped",
    severity: Severity::Warning,
    about: "the system replaces the value by another one without saying so",
    origin: "gRPC makes at most 5 attempts (A6)",
    check: None,
};

/// A field inside of a retry config that the system does not know.
pub static UNKNOWN_FIELD: Rule = Rule {
    name: "unknown-field",
    severity: Severity::Warning,
    about: "a field in a retry config is misspelt, or of another version",
    origin: "the systems' schemas",
    check: None,
};

/// A suppression that does not say why, and therefore does nothing.
pub static SUPPRESSION_WITHOUT_REASON: Rule = Rule {
    name: "suppression-without-reason",
    severity: Severity::Error,
    about: "a comment allows a rule and does not say why, so it allows nothing",
    origin: "what is allowed without a reason is never disallowed again",
    check: None,
};

/// A suppression that suppresses nothing.
pub static UNUSED_SUPPRESSION: Rule = Rule {
    name: "unused-suppression",
    severity: Severity::Note,
    about: "a comment allows a rule that has nothing to say here",
    origin: "a comment that outlives its reason hides the next finding",
    check: None,
};

/// A suppression of a rule that does not exist.
pub static UNKNOWN_RULE: Rule = Rule {
    name: "unknown-rule",
    severity: Severity::Warning,
    about: "a comment allows a rule that does not exist",
    origin: "a misspelt name suppresses nothing, and says nothing",
    check: None,
};

/// Values that each are allowed, and together are not.
pub static REFUSED_AT_START: Rule = Rule {
    name: "refused-at-start",
    severity: Severity::Error,
    about: "the system's own validator refuses these values, so the process does not start",
    origin: "HttpStandardResilienceOptions of .NET: the attempt timeout is at most the total, and at most half of the breaker's sampling duration",
    check: None,
};
