use redial_core::admit::BreakerRule;
use redial_core::schedule::{Backoff, Growth, HintRule, Jitter};
use redial_core::{Draft, Span, TimeLimit};

use super::super::import::{Import, Metadata};
use super::super::time::SHORTEST_DURATION;
use super::super::{Format, exactly, usual_failures};
use super::{
    ABOVE_DELAY, AROUND, DAY, DOTNET_TICK, GROWTH, get, hedging, is_section, standard_breaker,
};
use crate::file::{Queue, Setting};
use crate::finding::reading::{ATTEMPTS_OR_RETRIES, REFUSED_AT_START};
use crate::format::{ConfigReading, Note};
use crate::source::Problem;
use crate::tree::{Cursor, Document, Node, Table, Value};

pub(super) fn read(documents: &[Document], reading: &mut ConfigReading) {
    for document in documents {
        sections(document, &Cursor::top(&document.node), reading);
    }
}

fn sections(document: &Document, here: &Cursor<'_>, reading: &mut ConfigReading) {
    if is_section(here.node) {
        return section(document, here, reading);
    }
    here.fields().for_each(|(_, inner)| sections(document, &inner, reading));
    here.items().for_each(|inner| sections(document, &inner, reading));
}

const KNOWN: [&str; 5] =
    ["RateLimiter", "TotalRequestTimeout", "Retry", "CircuitBreaker", "AttemptTimeout"];

fn section(document: &Document, here: &Cursor<'_>, reading: &mut ConfigReading) {
    let mut import = Import::new(document, here);
    let name = if here.path().is_empty() { "standard" } else { here.path() }.replace('.', ":");
    let (format, mut setting) = (Format::DotNet, Setting::default());
    let top = Limits { here: here.clone(), prefix: "", attempt: "AttemptTimeout" };
    let total = top.timeout("TotalRequestTimeout", "deadline", Span::from_secs(30), &mut import);
    let hedging = get(here, "Hedging");
    let no_endpoint = Node { span: here.node.span, value: Value::Table(Table::default()) };
    let limits = if hedging.is_some() {
        let endpoint = get(here, "Endpoint");
        let endpoint = endpoint.unwrap_or_else(|| here.with("Endpoint", &no_endpoint));
        Limits { here: endpoint, prefix: "Endpoint:", attempt: "Timeout" }
    } else {
        top
    };
    let attempt =
        limits.timeout(limits.attempt, "attempt_timeout", Span::from_secs(10), &mut import);
    let mut draft = match &hedging {
        Some(hedging) => {
            unknown(here, &["TotalRequestTimeout", "Hedging", "Endpoint"], &mut import);
            unknown(&limits.here, &["RateLimiter", "CircuitBreaker", "Timeout"], &mut import);
            hedging::read(hedging, &mut import)
        }
        None => {
            unknown(here, &KNOWN, &mut import);
            retry(here, total, &mut import)
        }
    };
    let breaker = limits.breaker(&mut import);
    if import.problems.is_empty() {
        limits.validate(here, (total, attempt, sampling(&breaker)), &mut import);
    }
    draft =
        draft.deadline(total.into()).attempt_timeout(attempt.min(total).into()).breaker(breaker);
    draft = limits.limiter(draft, &mut setting, &mut import);
    let text = "set in code; the default of 408, 429, 5xx, failed requests and timeouts becomes connect, reset, timeout, throttled, \
                overloaded and server-error";
    import.notes.push(Note::approximated("ShouldHandle", text));
    import.finish(draft, Metadata { format, name, routes: Vec::new(), setting }, reading);
}

pub(super) fn unknown(here: &Cursor<'_>, known: &[&str], import: &mut Import<'_>) {
    for (name, field) in here.fields() {
        if !known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            import.unknown(name, &field, known);
        }
    }
}

fn retry(here: &Cursor<'_>, total: Span, import: &mut Import<'_>) -> Draft {
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
        let attempts = import.retries(&retries, 1).unwrap_or(4);
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
        let honours = import.problems.or(true, after.boolean());
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
    draft.backoff(backoff(field, total, import))
}

fn backoff<'a>(
    field: impl Fn(&str) -> Option<Cursor<'a>>,
    total: Span,
    import: &mut Import<'_>,
) -> Backoff {
    let kind = field("BackoffType");
    let name = kind.as_ref().map_or(Ok("Exponential"), |kind| kind.text());
    let name = import.problems.or("Exponential", name);
    let growths = [
        ("Constant", Growth::Constant),
        ("Linear", Growth::Linear),
        ("Exponential", Growth::Exponential(2.0)),
    ];
    let chosen = growths.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    if let Some(kind) = &kind {
        if chosen.is_none() {
            let problem = kind.problem(format_args!("unknown type {}", kind.node.value));
            import.problems.add(problem.help("use Constant, Linear or Exponential"));
        }
        import.kept(kind, "backoff.growth", "backoff.growth");
    }
    let growth = chosen.map_or(Growth::Exponential(2.0), |(_, growth)| growth);
    let use_jitter = field("UseJitter");
    let jitters = use_jitter.as_ref().map_or(Ok(true), Cursor::boolean);
    let jitters = import.problems.or(true, jitters);
    let delay = field("Delay");
    let base = delay.as_ref().map_or(Ok(Span::from_secs(2)), |delay| span(delay, Span::ZERO..=DAY));
    let base = import.problems.or(Span::from_secs(2), base);
    let most = field("MaxDelay");
    let cap = most.as_ref().and_then(|most| import.problems.ok(span(most, Span::ZERO..=DAY)));
    let (growth, jitter, base) = match growth {
        growth if !jitters => (growth, Jitter::None, base),
        Growth::Exponential(_) => {
            let (over, under) = ABOVE_DELAY;
            (Growth::Exponential(GROWTH), Jitter::Full, base * over / under)
        }
        growth => (growth, Jitter::Around(AROUND), base),
    };
    jitter_note(use_jitter.as_ref(), jitter, import);
    if let Some(delay) = &delay {
        let text = if base.is_zero() {
            "backoff.base = 1ns, the least of a policy"
        } else {
            "backoff.base"
        };
        if jitter == Jitter::Full || base.is_zero() {
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
    let cap = cap.unwrap_or(total.max(base + base / 4)).max(SHORTEST_DURATION);
    Backoff {
        growth,
        base: base.clamp(SHORTEST_DURATION, cap),
        cap,
        jitter,
        clip: jitter == Jitter::Around(AROUND),
    }
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

fn sampling(rule: &BreakerRule) -> TimeLimit {
    match rule.lookback {
        redial_core::admit::Lookback::Time(window) => window.into(),
        redial_core::admit::Lookback::Calls(_) => TimeLimit::NONE,
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
        default: Span,
        import: &mut Import<'_>,
    ) -> Span {
        let Some(section) = get(&self.here, name) else {
            let text = format!("{field} = {default}, the default");
            import.notes.push(Note::kept(self.name(name), text));
            return default;
        };
        unknown(&section, &["Timeout", "Name"], import);
        let Some(timeout) = get(&section, "Timeout") else { return default };
        import.kept(&timeout, field, field);
        import.problems.or(default, span(&timeout, Span::from_millis(10)..=DAY))
    }

    fn breaker(&self, import: &mut Import<'_>) -> BreakerRule {
        let mut rule = standard_breaker();
        let Some(breaker) = get(&self.here, "CircuitBreaker") else {
            let text = "breaker: by default 10% of at least 100 calls in 30 s, open for 5 s";
            import.notes.push(Note::kept(self.name("CircuitBreaker"), text));
            return rule;
        };
        let known =
            ["FailureRatio", "MinimumThroughput", "SamplingDuration", "BreakDuration", "Name"];
        unknown(&breaker, &known, import);
        if let Some(here) = get(&breaker, "FailureRatio") {
            let ratio = here.number().and_then(|ratio| match ratio {
                0.0..=1.0 => Ok(ratio),
                _ => Err(here.problem(format_args!("must be from 0 to 1, but is {ratio}"))),
            });
            rule.failure_ratio = import.problems.or(rule.failure_ratio, ratio);
            import.kept(&here, "breaker.failure_ratio", "breaker.failure_ratio");
        }
        if let Some(calls) = get(&breaker, "MinimumThroughput") {
            rule.minimum_calls = import.problems.ok(calls.count(2..=1_000_000));
            import.kept(&calls, "breaker.minimum_calls", "breaker.minimum_calls");
        }
        let time = |here: &Cursor<'_>, import: &Import<'_>| {
            import.problems.ok(span(here, Span::from_millis(500)..=DAY))
        };
        if let Some(here) = get(&breaker, "SamplingDuration") {
            if let Some(window) = time(&here, import) {
                rule = rule.last_time(window.into());
            }
            import.kept(&here, "breaker.lookback", "breaker.lookback.time");
        }
        if let Some(here) = get(&breaker, "BreakDuration") {
            rule.open = time(&here, import).unwrap_or(rule.open);
            import.kept(&here, "breaker.open", "breaker.open");
        }
        rule
    }

    /// Reports what .NET's own validator would reject.
    fn validate(
        &self,
        top: &Cursor<'_>,
        (total, attempt, sampling): (Span, Span, TimeLimit),
        import: &mut Import<'_>,
    ) {
        let attempts = get(&self.here, self.attempt);
        if attempt > total {
            let message =
                format!("the attempt timeout of {attempt} exceeds the total timeout of {total}");
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
        let least = attempt * 2;
        if sampling.is_exceeded_by(least) {
            let message = format!(
                "the breaker's sampling duration of {sampling} is below two attempt timeouts of {attempt}"
            );
            let help = format!("raise the sampling duration to at least {least}");
            let at = get(&self.here, "CircuitBreaker").or(attempts);
            import.finding(&REFUSED_AT_START, at.as_ref().unwrap_or(top), message, help);
        }
    }

    fn limiter(&self, draft: Draft, setting: &mut Setting, import: &mut Import<'_>) -> Draft {
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
            let places = import.problems.or(0, queue.count(0..=i32::MAX as u32));
            setting.queue = Some(if places == i32::MAX as u32 {
                Queue::Unbounded
            } else {
                Queue::Bounded(places)
            });
            import.kept(&queue, "setting.queue", "setting.queue");
        }
        let Some(permits) = field("PermitLimit") else {
            let text = "concurrency = 1000, the default; it limits calls there, including their waits, and attempts in flight here";
            import.notes.push(Note::approximated(self.name("RateLimiter"), text));
            return draft.concurrency(1000);
        };
        let text = "concurrency; it limits calls there, including their waits, and attempts in flight here";
        import.approximated(&permits, "concurrency", text);
        draft.concurrency(import.problems.or(1000, permits.count(1..=1_000_000)))
    }
}

/// A `TimeSpan`: `[d.]hh:mm[:ss[.fffffff]]`, or whole days.
pub(super) fn span(
    here: &Cursor<'_>,
    range: std::ops::RangeInclusive<Span>,
) -> Result<Span, Problem> {
    let text = here.scalar()?;
    let is = time_span(text.trim()).ok_or_else(|| {
        let problem = here.problem(format_args!("invalid TimeSpan {}", here.node.value));
        problem.help("write hours, minutes and seconds: \"00:00:02\" or \"1.02:03:04.5\"")
    })?;
    if range.contains(&is) {
        return Ok(is);
    }
    let (least, most) = (range.start(), range.end());
    Err(here.problem(format_args!("must be from {least} to {most}, but is {is}")))
}

pub(super) fn time_span(text: &str) -> Option<Span> {
    let number = |text: &str, below: u64| -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| digits && *number < below)
    };
    let Some((first, rest)) = text.split_once(':') else {
        let days = number(text, 10_000_000)?;
        return days.checked_mul(DAY.as_nanos()).map(Span::from_nanos);
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
    let rest = Span::from_secs(minutes * 60 + number(seconds, 60)?) + ticks * DOTNET_TICK;
    days.checked_mul(DAY.as_nanos())?.checked_add(rest.as_nanos()).map(Span::from_nanos)
}
