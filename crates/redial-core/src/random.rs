//! Random streams without state: the k-th draw of a stream is a function of its seed and k.

/// The finaliser of SplitMix64: every input bit reaches every output bit.
#[inline]
pub(crate) const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The `k`-th number of the stream that `seed` names (SplitMix64 with `seed` as its start).
#[inline]
pub const fn draw(seed: u64, k: u64) -> u64 {
    mix(seed.wrapping_add(k.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// A uniform number in `[lo, hi]`, both ends included, from 64 random bits. The range is not all of u64.
#[inline]
pub(crate) const fn uniform(lo: u64, hi: u64, bits: u64) -> u64 {
    lo + ((bits as u128 * (hi - lo + 1) as u128) >> 64) as u64
}
