//! Numbers as text for people: three digits, with a unit.

/// `950`, `12.3k`, `1.8M`.
pub fn count(number: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
    // 9,999.6 is printed as 10k: the unit is chosen for the printed number.
    match UNITS.iter().find(|(from, _)| number.abs() >= from * 0.999_95) {
        Some((1e4, unit)) => format!("{}{unit}", trimmed(&digits(number / 1e3))),
        Some((from, unit)) => format!("{}{unit}", trimmed(&digits(number / from))),
        None if number.fract() == 0.0 || number.abs() >= 100.0 => format!("{number:.0}"),
        None => digits(number),
    }
}

/// A duration in prose or in a table: `4.2 s`, `83 ms`, `12 min`. The form that can be pasted into a config is that of a
/// [`Span`](redial_core::Span).
pub fn milliseconds(ms: f64) -> String {
    let (number, unit) = match ms.abs() {
        ..1e-3 if ms != 0.0 => (ms * 1e6, "ns"),
        ..1.0 if ms != 0.0 => (ms * 1e3, "µs"),
        ..999.5 => (ms, "ms"),
        ..600e3 => (ms / 1e3, "s"),
        ..7.2e6 => (ms / 60e3, "min"),
        ..1.728e8 => (ms / 3.6e6, "h"),
        _ => (ms / 8.64e7, "d"),
    };
    format!("{} {unit}", trimmed(&digits(number)))
}

/// `83.1 %`, with more digits close to 0 and to 100.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let places = match percent.min(100.0 - percent) {
        0.0 => 0,
        ..0.005 => 3,
        ..0.95 => 2,
        _ => 1,
    };
    format!("{percent:.places$} %")
}

/// `8.72`, `120`.
pub fn ratio(number: f64) -> String {
    if number >= 1e4 { count(number) } else { digits(number) }
}

fn digits(number: f64) -> String {
    let places = match number.abs() {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{number:.places$}")
}

/// Without trailing zeros.
fn trimmed(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// The label of an axis: without the zeros that indicate precision.
pub(crate) fn tick(text: &str) -> String {
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let number = trimmed(number);
    if number == "0" { number.to_owned() } else { format!("{number}{unit}") }
}
