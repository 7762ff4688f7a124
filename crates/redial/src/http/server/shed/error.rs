use std::fmt;

/// A share that is not from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InvalidShare(pub(super) f64);

impl fmt::Display for InvalidShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "min_share is {}, but must be from 0 to 1", self.0)
    }
}

impl std::error::Error for InvalidShare {}
