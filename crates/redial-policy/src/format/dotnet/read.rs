use std::time::Duration;

use redial_core::admit::BreakerRule;
use redial_core::schedule::{Backoff, Growth, HintRule, Jitter};
use redial_core::{Draft, DurationText, NEVER, Nanos, SECOND};

use super::super::account::{Account, Around};
use super::super::{Format, exactly, usual_failures};
use super::{ABOVE_DELAY, AROUND, GROWTH, TICK, get, is_section, standard_breaker};
use crate::file::{Queue, Setting};
use crate::found::Note;
use crate::pile::{Document, Reading};
use crate::rules::reading::{ATTEMPTS_OR_RETRIES, REFUSED_AT_START};
use crate::source::Problem;
use crate::tree::Here;

const DAY: Nanos = 24 * 3600 * SECOND;

pub(super) fn read(documents: &[Document], reading: &mut Reading) {
    for document in documents {
        sections(document, &Here::top(&document.node), reading);
    }
}

fn sections(document: &Document, here: &Here<'_>, reading: &mut Reading) {
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

fn section(document: &Document, here: &Here<'_>, reading: &mut Reading) -> Result<(), Problem> {
    let mut account = Account::new(document, here);
    let name = if here.path().is_empty() { "standard" } else { here.path() }.replace('.', ":");
    let (format, mut setting) = (Format::DotNet, Setting::default());
    let total = timeout(here, "TotalRequestTimeout", "deadline", 30 * SECOND, &mut account)?;
    if let Some(hedging) = get(here, "Hedging") {
        account.dropped(&hedging, "a policy has no hedging: what is left is one attempt");
        if let Some(endpoint) = get(here, "Endpoint") {
            account.dropped(&endpoint, "belongs to the hedging");
        }
        unknown(here, &["TotalRequestTimeout", "Hedging", "Endpoint"], &mut account);
        let draft = Draft::bare(1).deadline(Duration::from_nanos(total));
        account.finish(draft, Around { format, name, routes: Vec::new(), setting }, reading);
        return Ok(());
    }
    unknown(here, &KNOWN, &mut account);
    let attempt = timeout(here, "AttemptTimeout", "attempt_timeout", 10 * SECOND, &mut account)?;
    let mut draft = retry(here, total, &mut account)?;
    let breaker = breaker(here, &mut account)?;
    validate(here, (total, attempt, sampling(&breaker)), &mut account);
    draft = draft
        .deadline(Duration::from_nanos(total))
        .attempt_timeout(Duration::from_nanos(attempt.min(total)))
        .breaker(breaker);
    draft = limiter(here, draft, &mut setting, &mut account)?;
    let text = "what is retried is code: connect, reset, timeout, throttled, overloaded and server-error stand for its \
                default, which is 408, 429, 5xx, failed requests and time-outs";
    account.notes.push(Note::approximated("ShouldHandle", text));
    account.finish(draft, Around { format, name, routes: Vec::new(), setting }, reading);
    Ok(())
}

fn unknown(here: &Here<'_>, known: &[&str], account: &mut Account<'_>) {
    for (name, field) in here.fields() {
        if !known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            account.unknown(name, &field, known);
        }
    }
}

fn timeout(
    here: &Here<'_>,
    name: &str,
    field: &'static str,
    default: Nanos,
    account: &mut Account<'_>,
) -> Result<Nanos, Problem> {
    let Some(section) = get(here, name) else {
        let text = format!("{field} = {}, the default", DurationText(default));
        account.notes.push(Note::kept(name, text));
        return Ok(default);
    };
    unknown(&section, &["Timeout", "Name"], account);
    let Some(timeout) = get(&section, "Timeout") else { return Ok(default) };
    account.kept(&timeout, field, field);
    span(&timeout, SECOND / 100..=DAY)
}

fn retry(here: &Here<'_>, total: Nanos, account: &mut Account<'_>) -> Result<Draft, Problem> {
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
        unknown(retry, &known, account);
    }
    let mut draft = Draft::bare(4).retry_on(usual_failures());
    if let Some(retries) = field("MaxRetryAttempts") {
        let attempts = account.retries(&retries, 1)?;
        let message = format!("is {}, which is {attempts} attempts", attempts - 1);
        let help = "it counts the retries after the first attempt";
        account.finding(&ATTEMPTS_OR_RETRIES, &retries, message, help);
        draft = draft.attempts(attempts);
    } else {
        account
            .notes
            .push(Note::kept("Retry:MaxRetryAttempts", "attempts = 4, the default of 3 retries"));
    }
    if let Some(after) = field("ShouldRetryAfterHeader") {
        let honours = after.yes()?;
        account.approximated(
            &after,
            "hint",
            "hint: it replaces the wait there, and is a floor here",
        );
        draft = draft.hint(if honours { exactly(total) } else { HintRule::Ignore });
    } else {
        let text = "hint: honoured; it replaces the wait there, and is a floor here";
        account.notes.push(Note::approximated("Retry:ShouldRetryAfterHeader", text));
        draft = draft.hint(exactly(total));
    }
    Ok(draft.backoff(backoff(field, total, account)?))
}

fn backoff<'a>(
    field: impl Fn(&str) -> Option<Here<'a>>,
    total: Nanos,
    account: &mut Account<'_>,
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
            let problem = kind.wrong(format_args!("there is no {}", kind.node.value));
            return Err(problem.help("there are Constant, Linear and Exponential"));
        }
        account.kept(kind, "backoff.growth", "backoff.growth");
    }
    let growth = chosen.map_or(Growth::Exponential(2.0), |(_, growth)| growth);
    let use_jitter = field("UseJitter");
    let jitters = use_jitter.as_ref().map_or(Ok(true), Here::yes)?;
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
    jitter_note(use_jitter.as_ref(), jitter, account);
    if let Some(delay) = &delay {
        let text =
            if base == 0 { "backoff.base = 1ns, the shortest there is" } else { "backoff.base" };
        if jitter == Jitter::Full || base == 0 {
            account.approximated(delay, "backoff.base", text);
        } else {
            account.kept(delay, "backoff.base", text);
        }
    }
    match &most {
        Some(most) => account.kept(most, "backoff.cap", "backoff.cap"),
        None => {
            let text = "there is none, so the cap is the total timeout: a longer wait never ends";
            account.notes.push(Note::approximated("Retry:MaxDelay", text));
        }
    }
    // A constant wait with jitter goes above its base.
    let cap = cap.unwrap_or(total.max(base.saturating_add(base / 4))).max(1);
    Ok(Backoff {
        growth,
        base: base.clamp(1, cap),
        cap,
        jitter,
        clip: jitter == Jitter::Around(AROUND),
    })
}

fn jitter_note(here: Option<&Here<'_>>, jitter: Jitter, account: &mut Account<'_>) {
    let exact = jitter != Jitter::Full;
    let text = match jitter {
        Jitter::Full => {
            "full jitter below 11/8 of the delay, growing by 1.75: the jitter of Polly is not uniform, and this comes \
             near in range and mean"
        }
        Jitter::None => "backoff.jitter = none",
        _ => "more or less by 25%",
    };
    match here {
        Some(here) if exact => account.kept(here, "backoff.jitter", text),
        Some(here) => account.approximated(here, "backoff.jitter", text),
        None if exact => account.notes.push(Note::kept("Retry:UseJitter", text)),
        None => account.notes.push(Note::approximated("Retry:UseJitter", text)),
    }
}

fn breaker(here: &Here<'_>, account: &mut Account<'_>) -> Result<BreakerRule, Problem> {
    let mut rule = standard_breaker();
    let Some(breaker) = get(here, "CircuitBreaker") else {
        let text = "breaker: the default, 10% of at least 100 calls in 30 s, open for 5 s";
        account.notes.push(Note::kept("CircuitBreaker", text));
        return Ok(rule);
    };
    let known = ["FailureRatio", "MinimumThroughput", "SamplingDuration", "BreakDuration", "Name"];
    unknown(&breaker, &known, account);
    if let Some(ratio) = get(&breaker, "FailureRatio") {
        rule.failure_ratio = ratio.number()?;
        if !(0.0..=1.0).contains(&rule.failure_ratio) {
            return Err(
                ratio.wrong(format_args!("must be from 0 to 1, but is {}", rule.failure_ratio))
            );
        }
        account.kept(&ratio, "breaker.failure_ratio", "breaker.failure_ratio");
    }
    if let Some(calls) = get(&breaker, "MinimumThroughput") {
        rule.minimum_calls = Some(calls.count(2..=1_000_000)?);
        account.kept(&calls, "breaker.minimum_calls", "breaker.minimum_calls");
    }
    if let Some(time) = get(&breaker, "SamplingDuration") {
        rule = rule.last_time(Duration::from_nanos(span(&time, SECOND / 2..=DAY)?));
        account.kept(&time, "breaker.lookback", "breaker.lookback.time");
    }
    if let Some(time) = get(&breaker, "BreakDuration") {
        rule.open = span(&time, SECOND / 2..=DAY)?;
        account.kept(&time, "breaker.open", "breaker.open");
    }
    Ok(rule)
}

fn sampling(rule: &BreakerRule) -> Nanos {
    match rule.lookback {
        redial_core::admit::Lookback::Time(window) => window,
        redial_core::admit::Lookback::Calls(_) => NEVER,
    }
}

/// What .NET's own validator says, which ends the process.
fn validate(
    here: &Here<'_>,
    (total, attempt, sampling): (Nanos, Nanos, Nanos),
    account: &mut Account<'_>,
) {
    let at = |names: [&str; 2]| {
        names.iter().find_map(|name| get(here, name)).unwrap_or_else(|| here.clone())
    };
    let text = DurationText;
    if attempt > total {
        let message =
            format!("an attempt may take {}, and all of them {}", text(attempt), text(total));
        let help = "make the total timeout at least as long as the attempt timeout";
        let at = at(["AttemptTimeout", "TotalRequestTimeout"]);
        account.finding(&REFUSED_AT_START, &at, message, help);
        account.approximated(
            &at,
            "attempt_timeout",
            "attempt_timeout is the deadline: no attempt outlives it",
        );
    }
    if sampling < attempt.saturating_mul(2) {
        let message = format!(
            "the breaker samples {}, which is less than two attempt timeouts of {}",
            text(sampling),
            text(attempt)
        );
        let help = format!("sample at least {}", text(attempt.saturating_mul(2)));
        account.finding(
            &REFUSED_AT_START,
            &at(["CircuitBreaker", "AttemptTimeout"]),
            message,
            help,
        );
    }
}

fn limiter(
    here: &Here<'_>,
    draft: Draft,
    setting: &mut Setting,
    account: &mut Account<'_>,
) -> Result<Draft, Problem> {
    let limiter = get(here, "RateLimiter");
    let options = limiter.as_ref().and_then(|limiter| get(limiter, "DefaultRateLimiterOptions"));
    if let Some(limiter) = &limiter {
        unknown(limiter, &["DefaultRateLimiterOptions", "Name"], account);
    }
    if let Some(options) = &options {
        unknown(options, &["PermitLimit", "QueueLimit", "QueueProcessingOrder"], account);
    }
    let field = |name: &str| options.as_ref().and_then(|options| get(options, name));
    if let Some(queue) = field("QueueLimit") {
        let places = queue.count(0..=i32::MAX as u32)?;
        setting.queue =
            Some(if places == i32::MAX as u32 { Queue::Unbounded } else { Queue::Bounded(places) });
        account.kept(&queue, "queue", "queue");
    }
    let Some(permits) = field("PermitLimit") else {
        let text = "concurrency = 1000, the default; calls count there, waiting or not, and attempts on the wire here";
        account.notes.push(Note::approximated("RateLimiter", text));
        return Ok(draft.concurrency(1000));
    };
    let text = "concurrency; calls count there, waiting or not, and attempts on the wire here";
    account.approximated(&permits, "concurrency", text);
    Ok(draft.concurrency(permits.count(1..=1_000_000)?))
}

/// A `TimeSpan`: `[d.]hh:mm[:ss[.fffffff]]`, or whole days.
fn span(here: &Here<'_>, range: std::ops::RangeInclusive<Nanos>) -> Result<Nanos, Problem> {
    let text = here.word()?;
    let nanos = time_span(text.trim()).ok_or_else(|| {
        let problem = here.wrong(format_args!("is no TimeSpan: {}", here.node.value));
        problem.help("write hours, minutes and seconds: \"00:00:02\" or \"1.02:03:04.5\"")
    })?;
    if range.contains(&nanos) {
        return Ok(nanos);
    }
    let (least, most) = (DurationText(*range.start()), DurationText(*range.end()));
    let is = DurationText(nanos);
    Err(here.wrong(format_args!("must be from {least} to {most}, but is {is}")))
}

fn time_span(text: &str) -> Option<Nanos> {
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
