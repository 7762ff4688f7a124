//! Rules that only a reader can check, because the policy that it produces no longer shows the violation.

use super::{Rule, Severity};

/// An unknown retry condition.
pub(crate) static UNKNOWN_RETRY_ON: Rule = Rule {
    name: "unknown-retry-on",
    severity: Severity::Error,
    about: "a retry condition is misspelt: Envoy ignores it silently, and Istio rejects the object",
    origin: "Envoy accepts any token, with a warning in its log; Istio's validation has a list",
};

/// A field named after attempts that counts retries.
pub(crate) static ATTEMPTS_OR_RETRIES: Rule = Rule {
    name: "attempts-or-retries",
    severity: Severity::Note,
    about: "the field counts retries, although its name suggests attempts",
    origin: "Envoy, Istio, Linkerd, Gateway API and .NET count retries; gRPC, resilience4j and AWS count attempts",
};

/// Annotations that have no effect.
pub(crate) static SHADOWED_ANNOTATIONS: Rule = Rule {
    name: "shadowed-annotations",
    severity: Severity::Warning,
    about: "a ServiceProfile makes the annotations of its Service ineffective",
    origin: "Linkerd's documentation",
};

/// A value that the system replaces silently.
pub(crate) static SILENTLY_CLAMPED: Rule = Rule {
    name: "silently-clamped",
    severity: Severity::Warning,
    about: "the system silently ignores the value, or replaces it",
    origin: "gRPC proposal A6: at most 5 attempts",
};

/// An unknown field in a retry config.
pub(crate) static UNKNOWN_FIELD: Rule = Rule {
    name: "unknown-field",
    severity: Severity::Warning,
    about: "a field in a retry config is misspelt, or belongs to another version",
    origin: "the schemas of the systems",
};

/// A suppression without a reason.
pub(crate) static SUPPRESSION_WITHOUT_REASON: Rule = Rule {
    name: "suppression-without-reason",
    severity: Severity::Error,
    about: "a comment suppresses a rule without a reason, so it is ignored",
    origin: "a suppression without a reason cannot be reviewed later",
};

/// A suppression without a finding.
pub(crate) static UNUSED_SUPPRESSION: Rule = Rule {
    name: "unused-suppression",
    severity: Severity::Note,
    about: "a comment suppresses a rule that reports nothing here",
    origin: "a stale suppression hides the next finding",
};

/// A suppression of a rule that does not exist.
pub(crate) static UNKNOWN_RULE: Rule = Rule {
    name: "unknown-rule",
    severity: Severity::Warning,
    about: "a comment suppresses a rule that does not exist",
    origin: "a misspelt name suppresses nothing",
};

/// A fleet that is not used.
pub(crate) static UNUSED_FLEET: Rule = Rule {
    name: "unused-fleet",
    severity: Severity::Warning,
    about: "the ledger of a fleet is described, and no policy names the fleet, so every process has a budget of its own",
    origin: "a misspelt or forgotten `fleet` multiplies the floor by the number of processes",
};

/// Values that the system's own validator rejects.
pub(crate) static REFUSED_AT_START: Rule = Rule {
    name: "refused-at-start",
    severity: Severity::Error,
    about: "the system's own validator rejects these values, so the process does not start, or the config has no effect",
    origin: "the validators of .NET's HttpStandardResilienceOptions, of Istio's objects and of gRPC's C++ core",
};
