//! The file format of an account. Reading detects truncation, damage and foreign files.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;

use redial_core::admit::budget::Saved;

/// Identifies the file and its version.
const MAGIC: &[u8; 16] = b"redial budget 1\n";

const BOOT: usize = MAGIC.len();
const RULES: usize = BOOT + 16;
const ACCOUNT: usize = RULES + 8;
const CHECK: usize = ACCOUNT + 8 * Saved::WORDS;
const SIZE: usize = CHECK + 8;

pub(super) struct Record {
    pub(super) boot: u128,
    pub(super) rules: u64,
    pub(super) saved: Saved,
}

/// Why the file has no account.
pub(super) enum Unusable {
    /// It is empty.
    New,
    /// It is a budget, but truncated or damaged.
    Damaged,
    /// It is another kind of file, and must not be written to.
    Foreign,
    Failed(io::Error),
}

impl Record {
    pub(super) fn read(file: &File) -> Result<Self, Unusable> {
        let size = file.metadata().map_err(Unusable::Failed)?.len();
        if size == 0 {
            return Err(Unusable::New);
        }
        if !is_ours(file).map_err(Unusable::Failed)? {
            return Err(Unusable::Foreign);
        }
        let mut bytes = [0; SIZE];
        if size != SIZE as u64 {
            return Err(Unusable::Damaged);
        }
        file.read_exact_at(&mut bytes, 0).map_err(Unusable::Failed)?;
        if bytes[..BOOT] != MAGIC[..] || word(&bytes, CHECK) != hash(&bytes[..CHECK]) {
            return Err(Unusable::Damaged);
        }
        let boot = u128::from(word(&bytes, BOOT)) << 64 | u128::from(word(&bytes, BOOT + 8));
        let words = std::array::from_fn(|i| word(&bytes, ACCOUNT + 8 * i));
        Ok(Self { boot, rules: word(&bytes, RULES), saved: Saved::from_words(&words) })
    }

    pub(super) fn write(&self, file: &File) -> io::Result<()> {
        let mut bytes = [0; SIZE];
        bytes[..BOOT].copy_from_slice(MAGIC);
        let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        put(BOOT, (self.boot >> 64) as u64);
        put(BOOT + 8, self.boot as u64);
        put(RULES, self.rules);
        self.saved.words().iter().enumerate().for_each(|(i, word)| put(ACCOUNT + 8 * i, *word));
        let check = hash(&bytes[..CHECK]);
        bytes[CHECK..].copy_from_slice(&check.to_le_bytes());
        if file.metadata()?.len() > SIZE as u64 {
            file.set_len(0)?;
        }
        file.write_all_at(&bytes, 0)
    }
}

/// Whether a file may be written to: it is empty, or was written by us. A crash may have left only the first bytes, or
/// only zeros.
pub(super) fn is_ours(file: &File) -> io::Result<bool> {
    let mut bytes = [0; SIZE + 1];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64)? {
            0 => break,
            read => length += read,
        }
    }
    let bytes = &bytes[..length];
    let begun = &MAGIC[..length.min(MAGIC.len())];
    let is_zeros = length <= SIZE && bytes.iter().all(|byte| *byte == 0);
    Ok(bytes.starts_with(begun) || is_zeros)
}

fn word(bytes: &[u8; SIZE], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// FNV-1a: it detects accidents and not attacks, because only the owner can write the file.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The ID of this boot; 0 where the system has none, and then an account of an earlier boot expires by its times.
pub(super) fn boot() -> u128 {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&id.trim().replace('-', ""), 16).unwrap_or(0)
}
