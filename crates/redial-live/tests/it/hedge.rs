//! A hedged call of the library and one of the simulator, in virtual time: the same attempts, the same end.

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use proptest::prelude::*;
use redial::Retry;
use redial_sim::simulate::Watch;
use redial_sim::{Scenario, exact};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

/// What the backend does with requests that arrive in a span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Serve,
    Refuse,
    Hang,
}

/// The lengths share no divisor, so that no two events fall on the same instant.
const SPAN_MS: u64 = 59;
const SERVICE_MS: u64 = 13;

fn scenario(spans: &[Answer], policy: &str) -> Scenario {
    let mut text = format!(
        "title = \"test\"\nduration = \"2s\"\npolicies = [\"it\"]\n\
         clients = {{ arrivals = {{ synchronised = {{ callers = 1 }} }} }}\n\
         backend = {{ service = \"{SERVICE_MS}ms\" }}\n[policy.it]\n{policy}\n"
    );
    for (number, answer) in spans.iter().enumerate() {
        let answer = match answer {
            Answer::Serve => continue,
            Answer::Refuse => "503",
            Answer::Hang => "\"hang\"",
        };
        let start = number as u64 * SPAN_MS;
        text += &format!(
            "[[outage]]\nstart = \"{start}ms\"\nduration = \"{SPAN_MS}ms\"\nanswer = {answer}\n"
        );
    }
    Scenario::read(&text, &[]).unwrap_or_else(|problem| panic!("{problem}\n{text}"))
}

/// Milliseconds until the end of the call, attempts, and whether it succeeded.
type End = (u64, u64, bool);

fn simulated(scenario: &Scenario) -> End {
    let run = exact::run(scenario, &scenario.subject("it").unwrap(), 1, &Watch::default());
    (run.completion_ms as u64, run.attempts, run.success == 1.0)
}

fn real(scenario: &Scenario, spans: &[Answer]) -> End {
    let policy = scenario.subject("it").unwrap().policy;
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        #[allow(clippy::disallowed_methods, reason = "the time of the paused runtime")]
        let (start, attempts) = (Instant::now(), Cell::new(0));
        let retry = Retry::new(policy).retry_if(|_: &&str| true);
        let result = retry
            .run(|_| async {
                attempts.set(attempts.get() + 1);
                let span = start.elapsed().as_millis() as u64 / SPAN_MS;
                match spans.get(span as usize).unwrap_or(&Answer::Serve) {
                    Answer::Serve => sleep(Duration::from_millis(SERVICE_MS)).await,
                    Answer::Refuse => return Err("refused"),
                    Answer::Hang => pending().await,
                }
                Ok(())
            })
            .await;
        (start.elapsed().as_millis() as u64, attempts.get(), result.is_ok())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_hedged_call_of_the_library_and_of_the_simulator_are_the_same(
        spans in prop::collection::vec(
            prop_oneof![Just(Answer::Serve), Just(Answer::Refuse), Just(Answer::Hang)],
            1..12,
        ),
        attempts in 1..8_u32,
        most in 1..4_u32,
        tokens in 0..6_u32,
        deadline in prop_oneof![Just("none"), Just("311ms")],
    ) {
        let policy = format!(
            "attempts = {attempts}\ndeadline = \"{deadline}\"\nattempt_timeout = \"131ms\"\n\
             hedge = {{ after = \"71ms\", most = {most} }}\n\
             backoff = {{ growth = \"constant\", base = \"37ms\", cap = \"37ms\", jitter = \"none\" }}\n\
             budget = {{ window = {{ ratio = 0.0001, floor = \"0/s\", bootstrap = {tokens} }} }}\n"
        );
        let scenario = scenario(&spans, &policy);
        prop_assert_eq!(simulated(&scenario), real(&scenario, &spans));
    }
}
