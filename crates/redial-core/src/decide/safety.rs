/// What the caller knows about doing the request twice.
///
/// It only matters when the first try may have reached the server: a request that was never sent, or
/// was refused unprocessed, is repeated whatever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Safety {
    /// Doing it twice may do harm, or nobody has said otherwise.
    #[default]
    Unsafe,
    /// It only asks, so that twice does nothing at all.
    ReadOnly,
    /// Twice is the same as once.
    Idempotent,
    /// It carries an idempotency key, so the server recognises the second one.
    Keyed,
    /// It carries a precondition (`If-Match`, a resource version), so the second one fails instead of
    /// being applied.
    Conditional,
}

impl Safety {
    pub(crate) fn allows(self, key_required: bool) -> bool {
        match self {
            Self::Unsafe => false,
            Self::ReadOnly | Self::Keyed => true,
            Self::Idempotent | Self::Conditional => !key_required,
        }
    }
}
