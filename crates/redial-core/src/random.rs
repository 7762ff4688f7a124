//! Random streams without state: the k-th draw of a stream is a function of its seed and k.

use crate::time::Span;

/// The `k`-th number of the stream that `seed` names. The generator is wyrand: its state after k steps has a closed
/// form.
#[inline]
pub const fn draw(seed: u64, k: u64) -> u64 {
    let state = seed.wrapping_add(k.wrapping_add(1).wrapping_mul(0x2d35_8dcc_aa6c_78a5));
    let product = state as u128 * (state ^ 0x8bb8_4b93_962e_acc9) as u128;
    (product >> 64) as u64 ^ product as u64
}

/// A uniform number in `[0, top]`, both ends included, from 64 random bits.
#[inline]
pub(crate) const fn up_to(top: u64, bits: u64) -> u64 {
    ((bits as u128 * top.saturating_add(1) as u128) >> 64) as u64
}

/// A uniform length in `[lo, hi]`, both ends included.
#[inline]
pub(crate) fn uniform(lo: Span, hi: Span, bits: u64) -> Span {
    lo + Span::from_nanos(up_to((hi - lo).as_nanos(), bits))
}

/// Whether something with this probability happens.
#[inline]
pub(crate) fn chance(odds: f64, bits: u64) -> bool {
    ((bits >> 11) as f64) < odds * (1_u64 << 53) as f64
}

/// The largest absolute value of [`normal`].
pub(crate) const NORMAL_MOST: f64 = 6.0;

/// A number that is nearly normal, with mean 0 and variance 1: twelve uniform ones, added up. A logarithm would need
/// the standard library.
pub(crate) fn normal(seed: u64) -> f64 {
    let sum: u128 = (0..12).map(|k| u128::from(draw(seed, k))).sum();
    sum as f64 / (1_u128 << 64) as f64 - NORMAL_MOST
}
