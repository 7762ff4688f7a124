use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;

/// A field of a policy that is out of range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    field: &'static str,
    value: String,
    allowed: Cow<'static, str>,
}

impl Invalid {
    /// Also for settings beside a policy, which are validated the same way.
    pub fn new(
        field: &'static str,
        value: impl Into<String>,
        allowed: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { field, value: value.into(), allowed: allowed.into() }
    }

    /// The field, as it is written in a policy file: `backoff.base`.
    pub fn field(&self) -> &str {
        self.field
    }

    /// Its value.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The allowed values.
    pub fn allowed(&self) -> &str {
        &self.allowed
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, but must be {}", self.field, self.value, self.allowed)
    }
}

impl core::error::Error for Invalid {}
