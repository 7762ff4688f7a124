use redial_core::{LONGEST_DURATION, Span};

use crate::source::Problem;
use crate::tree::Cursor;

/// A duration above zero.
pub(super) fn duration(here: &Cursor<'_>) -> Result<Span, Problem> {
    match seconds(here)? {
        Span::ZERO => Err(here.problem("must be above 0s")),
        span => Ok(span),
    }
}

/// The longest duration of protobuf in seconds: about 10,000 years.
const MOST_SECONDS: u64 = 315_576_000_000;

/// Seconds such as `0.1s` or `.5s`, down to a nanosecond. One that is longer than any of a policy is as long as that.
pub(super) fn seconds(here: &Cursor<'_>) -> Result<Span, Problem> {
    let help = "write seconds as a string: \"0.1s\"";
    let wrong =
        |why: &str| here.problem(format_args!("{why}, but is {}", here.node.value)).help(help);
    let text = here.node.text().ok_or_else(|| wrong("must be text"))?;
    let number = text.strip_suffix('s').ok_or_else(|| wrong("must end in `s`"))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.is_empty() || fraction.len() > 9 {
        return Err(wrong("must be digits, at most nine of them after a dot, and `s`"));
    }
    let whole = match whole {
        "" if number.is_empty() => return Err(wrong("must have digits before `s`")),
        "" => 0,
        whole => whole.parse().unwrap_or(u64::MAX),
    };
    if whole > MOST_SECONDS {
        return Err(wrong(&format!("must be at most {MOST_SECONDS}s")));
    }
    let fraction: u64 = format!("{fraction:0<9}").parse().unwrap_or_default();
    Ok((Span::from_secs(whole) + Span::from_nanos(fraction)).min(LONGEST_DURATION))
}
