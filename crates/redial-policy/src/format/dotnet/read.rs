use std::time::Duration;

use redial_core::admit::BreakerRule;
use redial_core::schedule::{Backoff, Growth, HintRule, Jitter};
use redial_core::{Draft, DurationText, NEVER, Nanos, SECOND};

use super::super::import::{Import, Metadata};
use super::super::{Format, exactly, usual_failures};
use super::{ABOVE_DELAY, AROUND, GROWTH, TICK, get, hedging, is_section, standard_breaker};
use crate::file::{Queue, Setting};
use crate::found::Note;
use crate::inputs::{Document, Reading};
use crate::rules::reading::{ATTEMPTS_OR_RETRIES, REFUSED_AT_START};
use crate::source::Problem;
use crate::tree::{Cursor, Node, Table, Value};

pub(super) const DAY: Nanos = 24 * 3600 * SECOND;

pub(super) fn read(documents: &[Document], reading: &mut Reading) {
    for document in documents {
        sections(document, &Cursor::top(&document.node), reading);
    }
}

fn sections(document: &Document, here: &Cursor<'_>, reading: &mut Reading) {
    if is_section(here.node) {
        if let Err(problem) = section(document, here, reading) {
            reading.problems.push((document.source, problem));
        }
        return;
    }
    here.fields().for_each(|(_, inner)| sections(document, &inner, reading));
    here.items().for_each(|inner| sections(document, &inner, reading));
}

const KNOWN: [&str; 5] =
    ["RateLimiter", "TotalRequestTimeout", "Retry", "CircuitBreaker", "AttemptTimeout"];

fn section(document: &Document, here: &Cursor<'_>, reading: &mut Reading) -> Result<(), Problem> {
    let mut import = Import::new(document, here);
    let name = if here.path().is_empty() { "standard" } else { here.path() }.replace('.', ":");
    let (format, mut setting) = (Format::DotNet, Setting::default());
    let top = Limits { here: here.clone(), prefix: "", attempt: "AttemptTimeout" };
    let total = top.timeout("TotalRequestTimeout", "deadline", 30 * SECOND, &mut import)?;
    let hedging = get(here, "Hedging");
    let no_endpoint = Node { span: here.node.span, value: Value::Table(Table::default()) };
    let limits = if hedging.is_some() {
        let endpoint = get(here, "Endpoint");
        let endpoint = endpoint.unwrap_or_else(|| here.with("Endpoint", &no_endpoint));
        Limits { here: endpoint, prefix: "Endpoint:", attempt: "Timeout" }
    } else {
        top
    };
    let attempt = limits.timeout(limits.attempt, "attempt_timeout", 10 * SECOND, &mut import)?;
    let mut draft = match &hedging {
        Some(hedging) => {
            unknown(here, &["TotalRequestTimeout", "Hedging", "Endpoint"], &mut import);
            unknown(&limits.here, &["RateLimiter", "CircuitBreaker", "Timeout"], &mut import);
            hedging::read(hedging, &mut import)?
        }
        None => {
            unknown(here, &KNOWN, &mut import);
            retry(here, total, &mut import)?
        }
    };
    let breaker = limits.breaker(&mut import)?;
    limits.validate(here, (total, attempt, sampling(&breaker)), &mut import);
    draft = draft
        .deadline(Duration::from_nanos(total))
        .attempt_timeout(Duration::from_nanos(attempt.min(total)))
        .breaker(breaker);
    draft = limits.limiter(draft, &mut setting, &mut import)?;
    let text = "set in code; the default of 408, 429, 5xx, failed requests and timeouts becomes connect, reset, timeout, throttled, \
                overloaded and server-error";
    import.notes.push(Note::approximated("ShouldHandle", text));
    import.finish(draft, Metadata { format, name, routes: Vec::new(), setting }, reading);
    Ok(())
}

pub(super) fn unknown(here: &Cursor<'_>, known: &[&str], import: &mut Import<'_>) {
    for (name, field) in here.fields() {
        if !known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            import.unknown(name, &field, known);
        }
    }
}

fn retry(here: &Cursor<'_>, total: Nanos, import: &mut Import<'_>) -> Result<Draft, Problem> {
    let retry = get(here, "Retry");
    let field = |name: &str| retry.as_ref().and_then(|retry| get(retry, name));
    let known = [
        "MaxRetryAttempts",
        "BackoffType",
        "UseJitter",
        "Delay",
        "MaxDelay",
        "ShouldRetryAfterHeader",
        "Name",
    ];
    if let Some(retry) = &retry {
        unknown(retry, &known, import);
    }
    let mut draft = Draft::bare(4).retry_on(usual_failures());
    if let Some(retries) = field("MaxRetryAttempts") {
        let attempts = import.retries(&retries, 1)?;
        let message = format!("is {}, which means {attempts} attempts", attempts - 1);
        let help = "it counts the retries after the first attempt";
        import.finding(&ATTEMPTS_OR_RETRIES, &retries, message, help);
        draft = draft.attempts(attempts);
    } else {
        import
            .notes
            .push(Note::kept("Retry:MaxRetryAttempts", "attempts = 4: 3 retries by default"));
    }
    if let Some(after) = field("ShouldRetryAfterHeader") {
        let honours = after.boolean()?;
        import.approximated(
            &after,
            "hint",
            "hint: it replaces the wait there, and is a minimum here",
        );
        draft = draft.hint(if honours { exactly(total) } else { HintRule::Ignore });
    } else {
        let text = "hint: honoured; it replaces the wait there, and is a minimum here";
        import.notes.push(Note::approximated("Retry:ShouldRetryAfterHeader", text));
        draft = draft.hint(exactly(total));
    }
    Ok(draft.backoff(backoff(field, total, import)?))
}

fn backoff<'a>(
    field: impl Fn(&str) -> Option<Cursor<'a>>,
    total: Nanos,
    import: &mut Import<'_>,
) -> Result<Backoff, Problem> {
    let kind = field("BackoffType");
    let name = kind.as_ref().map_or(Ok("Exponential"), |kind| kind.text())?;
    let growths = [
        ("Constant", Growth::Constant),
        ("Linear", Growth::Linear),
        ("Exponential", Growth::Exponential(2.0)),
    ];
    let chosen = growths.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    if let Some(kind) = &kind {
        if chosen.is_none() {
            let problem = kind.problem(format_args!("unknown type {}", kind.node.value));
            return Err(problem.help("use Constant, Linear or Exponential"));
        }
        import.kept(kind, "backoff.growth", "backoff.growth");
    }
    let growth = chosen.map_or(Growth::Exponential(2.0), |(_, growth)| growth);
    let use_jitter = field("UseJitter");
    let jitters = use_jitter.as_ref().map_or(Ok(true), Cursor::boolean)?;
    let delay = field("Delay");
    let base = delay.as_ref().map_or(Ok(2 * SECOND), |delay| span(delay, 0..=DAY))?;
    let most = field("MaxDelay");
    let cap = most.as_ref().map(|most| span(most, 0..=DAY)).transpose()?;
    let (growth, jitter, base) = match growth {
        growth if !jitters => (growth, Jitter::None, base),
        Growth::Exponential(_) => {
            let (over, under) = ABOVE_DELAY;
            (Growth::Exponential(GROWTH), Jitter::Full, base.saturating_mul(over) / under)
        }
        growth => (growth, Jitter::Around(AROUND), base),
    };
    jitter_note(use_jitter.as_ref(), jitter, import);
    if let Some(delay) = &delay {
        let text =
            if base == 0 { "backoff.base = 1ns, the least of a policy" } else { "backoff.base" };
        if jitter == Jitter::Full || base == 0 {
            import.approximated(delay, "backoff.base", text);
        } else {
            import.kept(delay, "backoff.base", text);
        }
    }
    match &most {
        Some(most) => import.kept(most, "backoff.cap", "backoff.cap"),
        None => {
            let text = "unset, so the cap is the total timeout: a longer wait never ends";
            import.notes.push(Note::approximated("Retry:MaxDelay", text));
        }
    }
    // With jitter, a constant wait can exceed its base.
    let cap = cap.unwrap_or(total.max(base.saturating_add(base / 4))).max(1);
    Ok(Backoff {
        growth,
        base: base.clamp(1, cap),
        cap,
        jitter,
        clip: jitter == Jitter::Around(AROUND),
    })
}

fn jitter_note(here: Option<&Cursor<'_>>, jitter: Jitter, import: &mut Import<'_>) {
    let exact = jitter != Jitter::Full;
    let text = match jitter {
        Jitter::Full => {
            "full jitter below 11/8 of the delay, growing by 1.75: Polly's jitter is not uniform, and this is close in \
             range and mean"
        }
        Jitter::None => "backoff.jitter = none",
        _ => "±25%",
    };
    match here {
        Some(here) if exact => import.kept(here, "backoff.jitter", text),
        Some(here) => import.approximated(here, "backoff.jitter", text),
        None if exact => import.notes.push(Note::kept("Retry:UseJitter", text)),
        None => import.notes.push(Note::approximated("Retry:UseJitter", text)),
    }
}

fn sampling(rule: &BreakerRule) -> Nanos {
    match rule.lookback {
        redial_core::admit::Lookback::Time(window) => window,
        redial_core::admit::Lookback::Calls(_) => NEVER,
    }
}

/// The limits of an attempt. With hedges they are those of its endpoint.
struct Limits<'a> {
    here: Cursor<'a>,
    /// What precedes their names in notes.
    prefix: &'static str,
    /// The name of the attempt timeout.
    attempt: &'static str,
}

impl Limits<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn timeout(
        &self,
        name: &str,
        field: &'static str,
        default: Nanos,
        import: &mut Import<'_>,
    ) -> Result<Nanos, Problem> {
        let Some(section) = get(&self.here, name) else {
            let text = format!("{field} = {}, the default", DurationText(default));
            import.notes.push(Note::kept(self.name(name), text));
            return Ok(default);
        };
        unknown(&section, &["Timeout", "Name"], import);
        let Some(timeout) = get(&section, "Timeout") else { return Ok(default) };
        import.kept(&timeout, field, field);
        span(&timeout, SECOND / 100..=DAY)
    }

    fn breaker(&self, import: &mut Import<'_>) -> Result<BreakerRule, Problem> {
        let mut rule = standard_breaker();
        let Some(breaker) = get(&self.here, "CircuitBreaker") else {
            let text = "breaker: by default 10% of at least 100 calls in 30 s, open for 5 s";
            import.notes.push(Note::kept(self.name("CircuitBreaker"), text));
            return Ok(rule);
        };
        let known =
            ["FailureRatio", "MinimumThroughput", "SamplingDuration", "BreakDuration", "Name"];
        unknown(&breaker, &known, import);
        if let Some(ratio) = get(&breaker, "FailureRatio") {
            rule.failure_ratio = ratio.number()?;
            if !(0.0..=1.0).contains(&rule.failure_ratio) {
                return Err(ratio
                    .problem(format_args!("must be from 0 to 1, but is {}", rule.failure_ratio)));
            }
            import.kept(&ratio, "breaker.failure_ratio", "breaker.failure_ratio");
        }
        if let Some(calls) = get(&breaker, "MinimumThroughput") {
            rule.minimum_calls = Some(calls.count(2..=1_000_000)?);
            import.kept(&calls, "breaker.minimum_calls", "breaker.minimum_calls");
        }
        if let Some(time) = get(&breaker, "SamplingDuration") {
            rule = rule.last_time(Duration::from_nanos(span(&time, SECOND / 2..=DAY)?));
            import.kept(&time, "breaker.lookback", "breaker.lookback.time");
        }
        if let Some(time) = get(&breaker, "BreakDuration") {
            rule.open = span(&time, SECOND / 2..=DAY)?;
            import.kept(&time, "breaker.open", "breaker.open");
        }
        Ok(rule)
    }

    /// Reports what .NET's own validator would reject.
    fn validate(
        &self,
        top: &Cursor<'_>,
        (total, attempt, sampling): (Nanos, Nanos, Nanos),
        import: &mut Import<'_>,
    ) {
        let attempts = get(&self.here, self.attempt);
        let text = DurationText;
        if attempt > total {
            let message = format!(
                "the attempt timeout of {} exceeds the total timeout of {}",
                text(attempt),
                text(total)
            );
            let help = "raise the total timeout, or lower the attempt timeout";
            let at = attempts.clone().or_else(|| get(top, "TotalRequestTimeout"));
            let at = at.as_ref().unwrap_or(top);
            import.finding(&REFUSED_AT_START, at, message, help);
            import.approximated(
                at,
                "attempt_timeout",
                "attempt_timeout = deadline, which ends the attempt anyway",
            );
        }
        if sampling < attempt.saturating_mul(2) {
            let message = format!(
                "the breaker's sampling duration of {} is below two attempt timeouts of {}",
                text(sampling),
                text(attempt)
            );
            let help = format!(
                "raise the sampling duration to at least {}",
                text(attempt.saturating_mul(2))
            );
            let at = get(&self.here, "CircuitBreaker").or(attempts);
            import.finding(&REFUSED_AT_START, at.as_ref().unwrap_or(top), message, help);
        }
    }

    fn limiter(
        &self,
        draft: Draft,
        setting: &mut Setting,
        import: &mut Import<'_>,
    ) -> Result<Draft, Problem> {
        let limiter = get(&self.here, "RateLimiter");
        let options =
            limiter.as_ref().and_then(|limiter| get(limiter, "DefaultRateLimiterOptions"));
        if let Some(limiter) = &limiter {
            unknown(limiter, &["DefaultRateLimiterOptions", "Name"], import);
        }
        if let Some(options) = &options {
            unknown(options, &["PermitLimit", "QueueLimit", "QueueProcessingOrder"], import);
        }
        let field = |name: &str| options.as_ref().and_then(|options| get(options, name));
        if let Some(queue) = field("QueueLimit") {
            let places = queue.count(0..=i32::MAX as u32)?;
            setting.queue = Some(if places == i32::MAX as u32 {
                Queue::Unbounded
            } else {
                Queue::Bounded(places)
            });
            import.kept(&queue, "queue", "queue");
        }
        let Some(permits) = field("PermitLimit") else {
            let text = "concurrency = 1000, the default; it limits calls there, including their waits, and attempts in flight here";
            import.notes.push(Note::approximated(self.name("RateLimiter"), text));
            return Ok(draft.concurrency(1000));
        };
        let text = "concurrency; it limits calls there, including their waits, and attempts in flight here";
        import.approximated(&permits, "concurrency", text);
        Ok(draft.concurrency(permits.count(1..=1_000_000)?))
    }
}

/// A `TimeSpan`: `[d.]hh:mm[:ss[.fffffff]]`, or whole days.
pub(super) fn span(
    here: &Cursor<'_>,
    range: std::ops::RangeInclusive<Nanos>,
) -> Result<Nanos, Problem> {
    let text = here.scalar()?;
    let nanos = time_span(text.trim()).ok_or_else(|| {
        let problem = here.problem(format_args!("invalid TimeSpan {}", here.node.value));
        problem.help("write hours, minutes and seconds: \"00:00:02\" or \"1.02:03:04.5\"")
    })?;
    if range.contains(&nanos) {
        return Ok(nanos);
    }
    let (least, most) = (DurationText(*range.start()), DurationText(*range.end()));
    let is = DurationText(nanos);
    Err(here.problem(format_args!("must be from {least} to {most}, but is {is}")))
}

pub(super) fn time_span(text: &str) -> Option<Nanos> {
    let number = |text: &str, below: Nanos| -> Option<Nanos> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| digits && *number < below)
    };
    let Some((first, rest)) = text.split_once(':') else {
        return number(text, 10_000_000)?.checked_mul(DAY);
    };
    let (days, hours) = match first.split_once('.') {
        Some((days, hours)) => (number(days, 10_000_000)?, hours),
        None => (0, first),
    };
    let (minutes, seconds) = rest.split_once(':').unwrap_or((rest, "0"));
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| *digits <= 7)?;
    let ticks = number(fraction, 10_000_000)? * 10_u64.pow(7 - digits);
    let minutes = number(hours, 24)? * 60 + number(minutes, 60)?;
    let rest = (minutes * 60 + number(seconds, 60)?) * SECOND + ticks * TICK;
    days.checked_mul(DAY)?.checked_add(rest)
}
