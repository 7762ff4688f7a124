//! The window budget compared with a model that remembers everything.

use proptest::prelude::*;
use redial_core::admit::budget::{Budget, WindowBudget};
use redial_core::decide::Class;
use redial_core::{Rate, Span, Time};

use crate::support::{Lab, MS, NS, SECOND, policy, spans};

#[derive(Clone, Debug)]
enum Step {
    Pass(Span),
    Deposit(u64),
    Withdraw(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pass = prop_oneof![3 => spans(Span::ZERO..200 * MS), 1 => spans(Span::ZERO..30 * SECOND)];
    let step = prop_oneof![
        pass.prop_map(Step::Pass),
        (1..50_u64).prop_map(Step::Deposit),
        (1..10_u64).prop_map(Step::Withdraw),
    ];
    proptest::collection::vec(step, 1..200)
}

/// How much of `history` lies in the last `span`.
fn recent(history: &[(Time, u64)], now: Time, span: Span) -> u64 {
    history.iter().filter(|(at, _)| now - *at <= span).map(|(_, n)| n).sum()
}

proptest! {
    #[test]
    fn never_more_than_the_window_earned_and_never_less(
        steps in steps(),
        thousandths in 1..=1_000_u64,
        floor in 0..5_u32,
    ) {
        let (ttl, slice) = (10 * SECOND, 10 * SECOND / 15 + NS);
        let ratio = thousandths as f64 / 1_000.0;
        let budget = WindowBudget::ratio(ratio).floor(Rate::per_second(floor));
        let mut lab = Lab::new(policy(|p| p.budget(Budget::Window(budget))));
        let (start, reserve) = (lab.now, u64::from(floor) * 10 * 1_000);
        let (mut deposits, mut withdrawals) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Pass(span) => lab.now += span,
                Step::Deposit(n) => {
                    lab.guards.deposit(0, n, lab.now);
                    deposits.push((lab.now, n));
                }
                Step::Withdraw(n) => {
                    let got = lab.guards.withdraw_up_to(n, Class::Timeout, lab.now);
                    withdrawals.push((lab.now, got));
                    let (least, most) = (ttl, ttl + slice);
                    let spent = recent(&withdrawals, lab.now, least) * 1_000;
                    let earned = reserve + thousandths * recent(&deposits, lab.now, most);
                    prop_assert!(got == 0 || spent <= earned, "overdrawn: {} of {}", spent, earned);
                    if got < n {
                        let spent = recent(&withdrawals, lab.now, most) * 1_000 + 1_000;
                        let earned = reserve + thousandths * recent(&deposits, lab.now, least);
                        prop_assert!(spent > earned, "refused at {} of {}", spent, earned);
                    }
                }
            }
        }
        let (calls, retries) = (recent(&deposits, lab.now, Span::MAX), recent(&withdrawals, lab.now, Span::MAX));
        let seconds = (lab.now - start).as_secs_f64() + 10.0;
        let bound = ratio * calls as f64 + f64::from(floor) * seconds;
        prop_assert!(retries as f64 <= bound + 1e-6, "{} of {} over the whole time", retries, bound);
    }
}
