/// Whether a request is safe to repeat.
///
/// It only matters if an earlier attempt may have been processed: a request that was never sent, or was
/// rejected unprocessed, can always be repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Safety {
    /// Repeating it may do harm, or its safety is unknown.
    #[default]
    Unsafe,
    /// It only reads.
    ReadOnly,
    /// Processing it twice has the same effect as once.
    Idempotent,
    /// It carries an idempotency key, so the server recognises a repetition.
    Keyed,
    /// It carries a precondition (`If-Match`, a resource version), so a repetition fails instead of being
    /// applied.
    Conditional,
}

impl Safety {
    /// Whether a request may be repeated that may have been processed.
    pub(crate) fn allows(self, key_required: bool) -> bool {
        match self {
            Self::Unsafe => false,
            Self::ReadOnly | Self::Keyed => true,
            Self::Idempotent | Self::Conditional => !key_required,
        }
    }
}
