//! One value in an atomic word, for threads that share a time or a measurement.

use core::fmt;
use core::marker::PhantomData;

use crate::sync::{AtomicU64, Ordering};
use crate::time::{Deadline, Span, Time};

/// A value of this type, which threads share.
pub(crate) struct Atomic<T> {
    word: AtomicU64,
    value: PhantomData<fn() -> T>,
}

/// What fits into a word.
pub(crate) trait Word: Copy {
    fn word(self) -> u64;
    fn of(word: u64) -> Self;
}

impl<T: Word> Atomic<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { word: AtomicU64::new(value.word()), value: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn load(&self, order: Ordering) -> T {
        T::of(self.word.load(order))
    }

    #[inline(always)]
    pub(crate) fn store(&self, value: T, order: Ordering) {
        self.word.store(value.word(), order);
    }

    pub(crate) fn swap(&self, value: T, order: Ordering) -> T {
        T::of(self.word.swap(value.word(), order))
    }

    /// Keeps the larger word.
    pub(crate) fn fetch_max(&self, value: T, order: Ordering) -> T {
        T::of(self.word.fetch_max(value.word(), order))
    }

    /// Replaces `current`. Returns whether it was the value.
    pub(crate) fn replace(&self, current: T, new: T, order: Ordering) -> bool {
        let (current, new) = (current.word(), new.word());
        self.word.compare_exchange(current, new, order, Ordering::Relaxed).is_ok()
    }

    /// A compare-and-swap loop. Returns the previous value, as `Err` if `change` returned `None`.
    #[inline]
    pub(crate) fn update(&self, mut change: impl FnMut(T) -> Option<T>) -> Result<T, T> {
        let change = |word| change(T::of(word)).map(T::word);
        let changed = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
        changed.map(T::of).map_err(T::of)
    }
}

impl<T: Word + Default> Default for Atomic<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Word + fmt::Debug> fmt::Debug for Atomic<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load(Ordering::Relaxed).fmt(f)
    }
}

impl Word for Time {
    #[inline(always)]
    fn word(self) -> u64 {
        self.as_nanos()
    }

    #[inline(always)]
    fn of(word: u64) -> Self {
        Self::from_nanos(word)
    }
}

impl Word for Span {
    #[inline(always)]
    fn word(self) -> u64 {
        self.as_nanos()
    }

    #[inline(always)]
    fn of(word: u64) -> Self {
        Self::from_nanos(word)
    }
}

/// The last time of all stands for none.
impl Word for Deadline {
    #[inline(always)]
    fn word(self) -> u64 {
        self.time().map_or(u64::MAX, Time::as_nanos)
    }

    #[inline(always)]
    fn of(word: u64) -> Self {
        Time::from_nanos(word).into()
    }
}

/// The zero point stands for none: a time there is kept as a nanosecond later.
impl Word for Option<Time> {
    fn word(self) -> u64 {
        self.map_or(0, |time| time.as_nanos().max(1))
    }

    fn of(word: u64) -> Self {
        (word != 0).then(|| Time::from_nanos(word))
    }
}

/// The longest length stands for none.
impl Word for Option<Span> {
    fn word(self) -> u64 {
        self.map_or(u64::MAX, Span::as_nanos)
    }

    fn of(word: u64) -> Self {
        (word != u64::MAX).then(|| Span::from_nanos(word))
    }
}

impl Word for f64 {
    fn word(self) -> u64 {
        self.to_bits()
    }

    fn of(word: u64) -> Self {
        Self::from_bits(word)
    }
}
