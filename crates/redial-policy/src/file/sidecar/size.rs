use crate::source::Problem;
use crate::tree::Cursor;

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// The most bytes of a size.
const MAX_BYTES: u64 = 1 << 40;

/// Reads a number of bytes such as `64KiB`.
pub(super) fn size(here: &Cursor<'_>) -> Result<u64, Problem> {
    let must_be = || here.must_be("a size such as \"64KiB\" or \"1MiB\"");
    let text = here.node.text().ok_or_else(must_be)?;
    let end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let Some((_, bytes)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let near = unit.chars().next().and_then(|first| {
            let first = first.to_ascii_uppercase();
            UNITS.iter().find(|(name, _)| name.starts_with(first))
        });
        let near = near.filter(|_| !digits.is_empty());
        let problem = must_be();
        return Err(match near {
            Some((unit, _)) => problem.help(format!("did you mean \"{digits}{unit}\"?")),
            None => problem,
        });
    };
    if digits.is_empty() {
        return Err(must_be());
    }
    let number = digits.parse().ok().and_then(|number: u64| number.checked_mul(*bytes));
    number
        .filter(|bytes| *bytes <= MAX_BYTES)
        .ok_or_else(|| here.must_be(format_args!("at most {}", size_text(MAX_BYTES))))
}

/// The shortest text of a size.
pub(super) fn size_text(bytes: u64) -> String {
    let (unit, of) = UNITS
        .into_iter()
        .find(|(_, of)| bytes != 0 && bytes.is_multiple_of(*of))
        .unwrap_or(("B", 1));
    format!("{}{unit}", bytes / of)
}
