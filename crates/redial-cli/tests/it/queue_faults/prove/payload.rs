//! Payloads that contain their own length and checksum, so that a truncated one is detected wherever it arrives.

use crate::queue_faults::Random;

/// A payload of at least `length` bytes on one line: the name of its job, its length, a checksum, and filler.
pub(super) fn make(name: &str, length: usize) -> String {
    let head = name.len() + 1 + LENGTH_DIGITS + 1 + CHECKSUM_DIGITS + 1;
    let mut random = Random(checksum(name.as_bytes()));
    let mut filler = String::with_capacity(length);
    while head + filler.len() < length {
        filler.push_str(&format!("{:08x}", random.below(1 << 32)));
    }
    let (length, sum) = (head + filler.len(), checksum(filler.as_bytes()));
    format!("{name} {length:0LENGTH_DIGITS$} {sum:0CHECKSUM_DIGITS$x} {filler}")
}

/// The name of the job, if this is the whole of its payload.
pub(super) fn name_if_whole(payload: &str) -> Option<&str> {
    let mut fields = payload.splitn(4, ' ');
    let (name, length, sum) = (fields.next()?, fields.next()?, fields.next()?);
    let filler = fields.next()?;
    let is_whole = length.parse() == Ok(payload.len())
        && u64::from_str_radix(sum, 16) == Ok(checksum(filler.as_bytes()));
    is_whole.then_some(name)
}

const LENGTH_DIGITS: usize = 7;
const CHECKSUM_DIGITS: usize = 16;

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

#[test]
fn a_truncated_or_changed_payload_is_detected() {
    for length in [0, 100, 5000] {
        let whole = make("7-1-3", length);
        assert!(whole.len() >= length);
        assert_eq!(name_if_whole(&whole), Some("7-1-3"));
        assert!((0..whole.len()).all(|end| name_if_whole(&whole[..end]).is_none()));
        assert_eq!(name_if_whole(&format!("{whole}0")), None);
    }
    let whole = make("7-1-3", 100);
    assert_eq!(name_if_whole(&format!("{}-", &whole[..whole.len() - 1])), None);
}
