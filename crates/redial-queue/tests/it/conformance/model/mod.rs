//! The same steps on the store and on a model, a plain list: the replies and the remaining jobs must be the same. The model has
//! two times: now, and later, which is an hour away and never comes.

mod steps;
mod world;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};

use super::shop::Shop;
use world::World;

/// How many sequences of steps, and how long each is.
const CASES: u32 = 24;
const STEPS: usize = 60;

pub(super) async fn behaves_like_the_model(shop: &Shop) {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let steps = proptest::collection::vec(steps::step(), STEPS);
    for case in 0..CASES {
        let sequence = steps.new_tree(&mut runner).unwrap().current();
        // Queues are independent, so each sequence has one and all share a store.
        let mut world = World::new(shop, format!("queue {case}"), case % 3).await;
        for (number, step) in sequence.iter().enumerate() {
            let place = format!("case {case}, step {number}: {step:?}");
            world.take(step, &place).await;
            world.compare(&format!("{place}, after {:?}", &sequence[..number])).await;
        }
    }
}
