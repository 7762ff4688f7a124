//! Hedged calls of the library and of the simulator, in virtual time: the same attempts, the same end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use redial::Retry;
use redial_sim::simulate::Watch;
use redial_sim::{Scenario, exact};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// What the backend does with requests that arrive in a span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Serve,
    Refuse,
    Hang,
}

/// How many calls are made, one every [`GAP`].
const CALLS: u32 = 12;
/// In seconds. The lengths share no large divisor, so that no two events fall on the same instant.
const GAP: u64 = 2111;
const SPAN: u64 = 59 * 64;
const SERVICE: u64 = 13 * 64;

fn scenario(spans: &[Answer], policy: &str) -> Scenario {
    let (rate, duration) = (1.0 / GAP as f64, (u64::from(CALLS) + 1) * GAP - 1);
    let mut text = format!(
        "title = \"test\"\nduration = \"{duration}s\"\nwindow = \"10s\"\npolicies = [\"it\"]\n\
         clients = {{ arrivals = {{ constant = {{ rate = {rate} }} }} }}\n\
         backend = {{ service = \"{SERVICE}s\" }}\n[policy.it]\n{policy}\n"
    );
    for (number, answer) in spans.iter().enumerate() {
        let answer = match answer {
            Answer::Serve => continue,
            Answer::Refuse => "503",
            Answer::Hang => "\"hang\"",
        };
        let start = number as u64 * SPAN;
        text += &format!(
            "[[outage]]\nstart = \"{start}s\"\nduration = \"{SPAN}s\"\nanswer = {answer}\n"
        );
    }
    Scenario::read(&text, &[]).unwrap_or_else(|problem| panic!("{problem}\n{text}"))
}

/// Milliseconds until the end of the last call, attempts, and calls that succeeded.
type End = (u64, u64, u64);

fn simulated(scenario: &Scenario) -> End {
    let run = exact::run(scenario, &scenario.subject("it").unwrap(), 1, &Watch::default());
    assert_eq!(run.calls, u64::from(CALLS));
    let succeeded = (run.success * run.calls as f64).round();
    (run.completion_ms as u64, run.attempts, succeeded as u64)
}

async fn attempt(start: Instant, spans: Arc<[Answer]>) -> Result<(), &'static str> {
    let span = start.elapsed().as_secs() / SPAN;
    match spans.get(span as usize).unwrap_or(&Answer::Serve) {
        Answer::Serve => sleep(Duration::from_secs(SERVICE)).await,
        Answer::Refuse => return Err("refused"),
        Answer::Hang => std::future::pending().await,
    }
    Ok(())
}

fn real(scenario: &Scenario, spans: &[Answer]) -> End {
    let policy = scenario.subject("it").unwrap().policy;
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (spans, attempts) = (Arc::<[Answer]>::from(spans), Arc::new(AtomicU64::new(0)));
    runtime.block_on(async {
        #[allow(clippy::disallowed_methods, reason = "the time of the paused runtime")]
        let start = Instant::now();
        let retry = Retry::new(policy).retry_if(|_: &&str| true);
        let mut calls = JoinSet::new();
        for number in 1..=u64::from(CALLS) {
            let (retry, spans, attempts) = (retry.clone(), spans.clone(), attempts.clone());
            calls.spawn(async move {
                sleep_until(start + Duration::from_secs(number * GAP)).await;
                let send = |_| {
                    attempts.fetch_add(1, Ordering::Relaxed);
                    attempt(start, spans.clone())
                };
                retry.run(send).await.is_ok()
            });
        }
        let ended = calls.join_all().await;
        let succeeded = ended.iter().filter(|ok| **ok).count() as u64;
        (start.elapsed().as_millis() as u64, attempts.load(Ordering::Relaxed), succeeded)
    })
}

fn spans() -> impl Strategy<Value = Vec<Answer>> {
    let answer = prop_oneof![Just(Answer::Serve), Just(Answer::Refuse), Just(Answer::Hang)];
    prop::collection::vec(answer, 1..8)
}

/// Full of whatever the budget allows. Nothing is held back or parked, because a refusal and the time of a probe are drawn.
fn policy(attempts: u32, hedge: &str, budget: &str, more: &str) -> String {
    format!(
        "attempts = {attempts}\nhedge = {{ {hedge} }}\nbudget = {{ {budget} }}\nstall = \"none\"\npark = \"none\"\n{more}\n\
         backoff = {{ growth = \"constant\", base = \"2368s\", cap = \"2368s\", jitter = \"none\" }}\n"
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn hedged_calls_of_the_library_and_of_the_simulator_are_the_same(
        spans in spans(),
        attempts in 1..8_u32,
        most in 1..4_u32,
        tokens in 0..20_u32,
        deadline in prop_oneof![Just("none"), Just("19904s")],
    ) {
        let hedge = format!("after = \"4544s\", most = {most}");
        let budget = format!("window = {{ ratio = 0.0001, floor = \"0/s\", bootstrap = {tokens} }}");
        let more = format!("attempt_timeout = \"8384s\"\ndeadline = \"{deadline}\"");
        let scenario = scenario(&spans, &policy(attempts, &hedge, &budget, &more));
        prop_assert_eq!(simulated(&scenario), real(&scenario, &spans));
    }

    /// Hedges of the standard policy: beside overtaken attempts, and requested again where there was none. Timers of tokio
    /// round up to a millisecond; nearly all of these times are whole ones, because the deadline is a power of four.
    #[test]
    fn overtaken_calls_of_the_library_and_of_the_simulator_are_the_same(
        spans in spans(),
        attempts in 1..6_u32,
        most in 1..4_u32,
        opening in 0..60_u32,
        timeout in prop_oneof![Just("none"), Just("12345s")],
    ) {
        let hedge = format!("share = 0.25, most = {most}, overtaken = true");
        let budget = format!(
            "tokens = {{ capacity = 60, cost = 20, timeout_cost = 40, opening = {opening}, bootstrap = 20, bonus = 10, \
             slowdown = 3.0, floor = \"1/10000s\" }}"
        );
        let more = format!("attempt_timeout = \"{timeout}\"\ndeadline = \"16777216ms\"");
        let scenario = scenario(&spans, &policy(attempts, &hedge, &budget, &more));
        let (simulated, real) = (simulated(&scenario), real(&scenario, &spans));
        prop_assert_eq!((simulated.1, simulated.2), (real.1, real.2));
        prop_assert!(real.0.abs_diff(simulated.0) <= 5, "{} and {}", real.0, simulated.0);
    }
}
