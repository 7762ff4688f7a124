use std::time::Duration;

use redial_core::admit::budget::{Budget, TokenBudget, WindowBudget};
use redial_core::admit::{BreakerRule, CoolDownRule};
use redial_core::decide::Safety;
use redial_core::schedule::{Backoff, HintRule, Jitter};
use redial_core::{Draft, Policy, Preset, Rate, Span, Stop};
use redial_sim::explain::{Explanation, Parking, Question, Ruling, Script, ScriptError, explain};

const MS: Span = Span::MILLISECOND;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 100, 200, 400 … ms exactly, 4 attempts, no budget.
fn plain() -> Draft {
    let backoff = Backoff::exponential(ms(100), ms(2_000)).jitter(Jitter::None);
    Policy::draft().backoff(backoff).budget(Budget::None)
}

fn ask(draft: Draft, outcomes: &str, change: impl FnOnce(&mut Question)) -> Explanation {
    let mut question = Question { script: outcomes.parse().unwrap(), ..Question::default() };
    change(&mut question);
    explain(&draft.build().unwrap(), &question)
}

/// Each step as `call.attempt outcome verdict reason delay @elapsed`, times in ms.
fn lines(explanation: &Explanation) -> Vec<String> {
    let step = explanation.steps.iter().map(|step| {
        let outcome = step.outcome.as_deref().unwrap_or("-");
        let delay = step.ruling.delay().map_or(String::new(), |delay| format!(" {}", delay / MS));
        let (name, reason) = (step.ruling.name(), step.ruling.reason());
        let (call, attempt, elapsed) = (step.call, step.attempt, step.elapsed / MS);
        format!("{call}.{attempt} {outcome} {name} {reason}{delay} @{elapsed}")
    });
    step.collect()
}

#[track_caller]
fn check(draft: Draft, outcomes: &str, change: impl FnOnce(&mut Question), expected: &[&str]) {
    assert_eq!(lines(&ask(draft, outcomes, change)), expected);
}

#[test]
fn without_jitter_every_step_is_known() {
    check(
        plain(),
        "503,timeout,200; reset",
        |q| q.latency = 20 * MS,
        &[
            "1.1 503 wait overloaded 100 @20",
            // The policy has no timeout for an attempt: this one waits for the deadline.
            "1.2 timeout stop deadline @10000",
            "2.1 reset wait reset 100 @20",
            "2.2 reset wait reset 200 @140",
            "2.3 reset wait reset 400 @360",
            "2.4 reset stop attempts @780",
        ],
    );
}

#[test]
fn a_timeout_takes_the_time_of_the_attempt_and_an_answer_after_it_is_cut_off() {
    let draft = plain().attempt_timeout(ms(150)).attempts(2);
    check(
        draft.clone(),
        "timeout,200",
        |_| {},
        &["1.1 timeout wait timeout 100 @150", "1.2 200 done success @250"],
    );
    check(
        draft.clone(),
        "200",
        |q| q.latency = 150 * MS,
        &["1.1 200 done success @150"], // just in time
    );
    check(
        draft,
        "200",
        |q| q.latency = 151 * MS,
        &[
            "1.1 timeout instead of 200 wait timeout 100 @150",
            "1.2 timeout instead of 200 stop attempts @400",
        ],
    );
    let endless = plain().without_deadline().attempts(1);
    check(endless, "timeout", |q| q.latency = 5 * MS, &["1.1 timeout stop attempts @5"]);
}

#[test]
fn calls_share_one_budget_until_it_is_dry() {
    let budget = Budget::Tokens(TokenBudget::new(15, 5));
    let explanation = ask(plain().budget(budget).without_park(), "500,500,200; 503; 503", |_| {});
    assert_eq!(
        lines(&explanation),
        [
            "1.1 500 wait server-error 100 @0",
            "1.2 500 wait server-error 200 @100",
            "1.3 200 done success @300",
            "2.1 503 wait overloaded 100 @0",
            "2.2 503 wait overloaded 200 @100",
            "2.3 503 stop budget @300",
            "3.1 503 stop budget @0",
        ]
    );
    let balances: Vec<_> = explanation.steps.iter().map(|step| step.budget.unwrap()).collect();
    assert_eq!(balances, [2, 1, 2, 1, 0, 0, 0], "a success refunds its retry");
    assert_eq!(ask(plain(), "500", |_| {}).steps[0].budget, None);
}

#[test]
fn a_window_forgets_while_calls_wait() {
    let floor = WindowBudget::ratio(0.0).floor(Rate::per_second(1)).ttl(ms(1_000));
    let draft = plain().budget(Budget::Window(floor)).attempts(2);
    check(
        draft,
        "500@retry-after=2; 500",
        |_| {},
        &[
            "1.1 500@retry-after=2 wait server-error, hint honoured 2000 @0",
            // Its withdrawal has left the window, and is made again when it is sent.
            "1.2 500@retry-after=2 stop attempts @2000",
            "2.1 500 stop budget, not parked: alone @0",
        ],
    );
}

#[test]
fn hints_are_floors_slots_and_pushbacks() {
    check(
        plain(),
        "429@retry-after=7,503@slot=250ms,UNAVAILABLE@pushback=40ms,OK",
        |_| {},
        &[
            "1.1 429@retry-after=7 wait throttled, hint honoured 7000 @0",
            "1.2 503@slot=250ms wait overloaded, hint honoured 250 @7000",
            "1.3 UNAVAILABLE@pushback=40ms wait overloaded, hint honoured 40 @7250",
            "1.4 OK done success @7290",
        ],
    );
    check(
        plain(),
        "429@retry-after=61; 429@retry-after=30s; RESOURCE_EXHAUSTED; grpc:8@pushback=1ms,grpc:0",
        |_| {},
        &[
            "1.1 429@retry-after=61 stop hint-too-long @0",
            "2.1 429@retry-after=30s stop deadline @0",
            "3.1 RESOURCE_EXHAUSTED stop permanent @0",
            "4.1 grpc:8@pushback=1ms wait throttled, hint honoured 1 @0",
            "4.2 grpc:0 done success @1",
        ],
    );
    check(
        plain().hint(HintRule::Ignore).attempts(2),
        "429@retry-after=7, 200",
        |_| {},
        &["1.1 429@retry-after=7 wait throttled, hint ignored 100 @0", "1.2 200 done success @100"],
    );
}

#[test]
fn unsafe_requests_are_not_repeated() {
    let outcomes = "connect,500,200";
    let stopped =
        ["1.1 connect wait connect 100 @0", "1.2 500 stop unsafe @100"].map(str::to_owned);
    let done = |safety| lines(&ask(plain(), outcomes, |q| q.safety = safety)).len() == 3;
    assert_eq!(lines(&ask(plain(), outcomes, |q| q.safety = Safety::Unsafe)), stopped);
    assert!(
        [Safety::Idempotent, Safety::Keyed, Safety::Conditional, Safety::ReadOnly].map(done)
            == [true; 4]
    );
    let keys_only = ask(plain().require_key(), outcomes, |_| {});
    assert_eq!(lines(&keys_only), stopped);
}

#[test]
fn the_deadline_and_the_guards_end_calls() {
    check(
        plain().deadline(ms(250)),
        "500",
        |_| {},
        &[
            "1.1 500 wait server-error 100 @0",
            "1.2 500 stop deadline @100", // a wait of 200 ms would end after it
        ],
    );
    check(
        plain().cooldown(CoolDownRule::every(ms(30_000))),
        "500,200; 500",
        |_| {},
        &[
            "1.1 500 wait server-error 100 @0",
            "1.2 200 done success @100",
            "2.1 500 stop cool-down @0",
        ],
    );
    let refused = ask(plain().breaker(BreakerRule::default()), &["500"; 8].join(";"), |_| {});
    assert_eq!(refused.steps.last().unwrap().outcome, None, "the breaker admits no call");
    assert_eq!(
        refused.steps.last().unwrap().ruling,
        Ruling::Stop(Stop::BreakerOpen, Parking::default())
    );
}

#[test]
fn polling_is_free_and_bounded() {
    let draft = plain().budget(Budget::Tokens(TokenBudget::new(5, 5)));
    let poll = ask(draft.attempts(1_000_000).without_deadline(), "not-yet", |_| {});
    assert_eq!(poll.steps.len(), 1_001, "a million steps are cut off");
    assert!(poll.steps.iter().all(|step| step.budget == Some(1)));
    assert_eq!(poll.steps[0].ruling, Ruling::Wait(100 * MS, "not-yet".to_owned()));
    assert_eq!(poll.steps[1_000].ruling, Ruling::Stop(Stop::Cancelled, Parking::default()));
    assert_eq!((poll.waits.len(), poll.runs[0].len()), (20, 20));
}

#[test]
fn waits_have_the_moments_of_their_distribution() {
    let full = ask(Policy::draft().attempts(8), "503", |_| {});
    for (wait, ceiling) in full.waits.iter().zip([100, 200, 400, 800, 1600, 2000, 2000]) {
        let near = |value: Span, ratio: f64| {
            let share = value.ratio_to(ceiling * MS);
            assert!((share - ratio).abs() < 0.012, "retry {}: {share} is not {ratio}", wait.retry);
        };
        assert_eq!((wait.ceiling, wait.capped), (ceiling * MS, ceiling == 2000));
        near(wait.mean, 0.5);
        near(wait.p5, 0.05);
        near(wait.p95, 0.95);
    }
    assert_eq!((full.cap.wait, full.cap.retry), (2000 * MS, Some(6)));
    let backoff = Backoff::default().jitter(Jitter::Decorrelated);
    let decorrelated = ask(Policy::draft().backoff(backoff), "503", |_| {});
    let ceilings: Vec<_> = decorrelated.waits.iter().map(|wait| wait.ceiling / MS).collect();
    assert_eq!(ceilings, [300, 900, 2000]);
    let third = &decorrelated.waits[2];
    assert!(third.p5 >= 100 * MS && third.p95 < third.ceiling, "{third:?}");
}

#[test]
fn without_jitter_waits_are_exact_whatever_the_seed() {
    let one = ask(plain(), "503", |_| {});
    for (wait, exact) in one.waits.iter().zip([100 * MS, 200 * MS, 400 * MS]) {
        assert_eq!([wait.ceiling, wait.mean, wait.p5, wait.p95], [exact; 4]);
    }
    assert_eq!(one.runs, vec![vec![100 * MS, 200 * MS, 400 * MS]; 10]);
    assert_eq!(one.cap.retry, None);
    let other = ask(plain(), "503", |q| q.seed = 99);
    assert_eq!((one.steps, one.waits, one.runs), (other.steps, other.waits, other.runs));
}

#[test]
fn the_seed_determines_the_waits_of_calls_and_runs() {
    let ask = |seed| ask(Preset::Standard01.draft(), "503; 503", |q| q.seed = seed);
    let (one, again, other) = (ask(1), ask(1), ask(2));
    assert_eq!((&one.steps, &one.runs), (&again.steps, &again.runs));
    assert_ne!(one.runs, other.runs);
    let delays: Vec<_> = one.steps.iter().filter_map(|step| step.ruling.delay()).collect();
    assert_eq!(delays, one.runs[..2].concat());
}

#[test]
fn a_parked_call_that_is_alone_is_a_probe_or_fails() {
    let budget = Budget::Tokens(TokenBudget::new(15, 5));
    let explanation = ask(plain().budget(budget), "503,503,200; 503", |_| {});
    let rulings: Vec<_> =
        explanation.steps.iter().map(|step| (step.ruling.name(), step.ruling.reason())).collect();
    let probe = ("wait", "overloaded, parked until a probe");
    let expected =
        [probe, probe, ("done", "success"), probe, probe, ("stop", "budget, not parked: alone")];
    let expected = expected.map(|(name, reason)| (name, reason.into()));
    assert_eq!(rulings, expected);
    let waits: Vec<_> = explanation.steps.iter().filter_map(|it| it.ruling.delay()).collect();
    assert!(waits[0] < waits[1] && waits[2] < waits[3], "{waits:?}");
}

#[test]
fn a_call_that_fails_fast_says_why_it_is_not_parked() {
    let last = |draft: Draft, script: &str, latency| {
        lines(&ask(draft, script, |q| q.latency = latency)).pop().unwrap()
    };
    let standard = || Preset::Standard.draft();
    // The retries of a new process are used up.
    assert_eq!(last(standard(), "503; 503", 20 * MS), "2.1 503 stop budget, not parked: alone @20");
    let long = lines(&ask(standard(), "503; 503; 503; 503", |q| q.latency = 20 * MS));
    assert!(long[5].ends_with("stop budget, no longer parked: alone @3790"), "{long:?}");
    assert_eq!(long[6], "4.1 503 stop budget, not parked: long-outage @20");
    assert_eq!(
        last(standard().attempt_timeout(ms(2_000)), "timeout", MS),
        "1.1 timeout stop budget, not parked: no-room @2000"
    );
    let half = "200; 503,200; ".repeat(20) + &"503; ".repeat(5) + "503";
    assert_eq!(last(standard(), &half, MS), "46.1 503 stop budget, not parked: failures-usual @1");
    let fail_fast = standard().without_park();
    assert_eq!(last(fail_fast, "503; 503; 503", MS), "3.1 503 stop budget @1");
}

#[test]
fn calls_are_held_back_after_timeouts_in_a_row() {
    let draft = plain().attempts(1).attempt_timeout(ms(100));
    let stalled = |script: &str| {
        let steps = ask(draft.clone(), script, |_| {}).steps;
        steps.iter().filter(|step| matches!(step.ruling, Ruling::Stop(Stop::Stalled, _))).count()
    };
    assert_eq!(stalled("timeout; timeout; timeout; timeout; timeout"), 0);
    let many = "timeout; ".repeat(104) + "timeout";
    assert!((35..65).contains(&stalled(&many)), "half of a hundred: {}", stalled(&many));
}

#[test]
fn an_invalid_script_is_refused() {
    let check = |text: &str, expected: ScriptError| {
        assert_eq!(text.parse::<Script>().unwrap_err(), expected, "{text}");
    };
    for token in ["50x", "99", "600", "Timeout", "UNAVAILIBLE", "grpc:17", "grpc:", "-1", "ok"] {
        check(&format!("503, {token}"), ScriptError::Outcome(token.to_owned()));
    }
    let hints = [
        "",
        "=",
        "retry-after",
        "retry-after=",
        "retry-after=soon",
        "retry-after=+1",
        "slot=7",
        "pause=1s",
    ];
    for hint in hints {
        let token = format!("503@{hint}");
        check(&format!("200; {token}"), ScriptError::Hint(token.clone()));
    }
    check("", ScriptError::Missing(String::new()));
    check("503,,200", ScriptError::Missing("503,,200".to_owned()));
    check("503; 200,;500", ScriptError::Missing("200,".to_owned()));
    check("200@slot=1s", ScriptError::HintOfSuccess("200@slot=1s".to_owned()));
    let message = ScriptError::Outcome("50x".to_owned()).to_string();
    assert!(message.contains("`50x`") && message.contains("cancelled"), "{message}");
}
