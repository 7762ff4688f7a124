use std::iter;
use std::sync::Arc;

use redial_core::Time;
use redial_sim::open_loop::OpenLoop;
use redial_sim::scenario::{Arrivals, HowLong};
use tokio::task::JoinSet;

use crate::caller::Caller;
use crate::pool::{Client, Pool};
use crate::shared::Shared;

/// Runs all callers, until the calls that began in time have ended.
pub(crate) async fn run<C: Caller>(shared: Arc<Shared>, pool: Arc<Pool>, instances: Vec<Arc<C>>) {
    let mut tasks = JoinSet::new();
    match shared.scenario().clients.arrivals {
        Arrivals::Closed { callers, think } => {
            for number in 0..callers as usize {
                let caller = Arc::clone(&instances[number % instances.len()]);
                let number = number as u64;
                tasks.spawn(closed(Arc::clone(&shared), Arc::clone(&pool), caller, think, number));
            }
        }
        _ => open(&shared, &pool, &instances, &mut tasks).await,
    }
    while tasks.join_next().await.is_some() {}
}

async fn closed<C: Caller>(
    shared: Arc<Shared>,
    pool: Arc<Pool>,
    caller: Arc<C>,
    think: HowLong,
    number: u64,
) {
    let mut stream = shared.stream(number);
    // As if the loop had been running for long.
    let mut next = Time::at(think.residual(&mut stream));
    while shared.is_running(next) {
        shared.wait_until(next).await;
        let over = call(&shared, &pool, &*caller, shared.now()).await;
        next = over + think.draw(&mut stream);
    }
}

async fn open<C: Caller>(
    shared: &Arc<Shared>,
    pool: &Arc<Pool>,
    instances: &[Arc<C>],
    tasks: &mut JoinSet<()>,
) {
    for (begin, instance) in arrivals(shared) {
        // A timer wakes once a millisecond; then all calls that are due begin.
        if begin > shared.now() {
            shared.wait_until(begin).await;
        }
        let caller = Arc::clone(&instances[instance as usize]);
        let (shared, pool) = (Arc::clone(shared), Arc::clone(pool));
        tasks.spawn(async move {
            call(&shared, &pool, &*caller, begin).await;
        });
        // Finished tasks are removed, or they would accumulate.
        while tasks.try_join_next().is_some() {}
    }
}

/// When the calls of an open loop begin, each with its instance.
pub(crate) fn arrivals(shared: &Shared) -> impl Iterator<Item = (Time, u32)> {
    let scenario = shared.scenario();
    let mut arrivals = OpenLoop::new(scenario, shared.setting.seed);
    let mut next = Time::ZERO;
    iter::from_fn(move || {
        next = arrivals.next(next);
        (next < scenario.end()).then(|| (next, arrivals.instance()))
    })
}

/// Makes one call; returns when it ended. In an open loop it counts from when it was due, so that a late one is not better.
async fn call<C: Caller>(shared: &Shared, pool: &Arc<Pool>, caller: &C, started: Time) -> Time {
    shared.record.begun(started);
    let client = Client::new(Arc::clone(pool));
    let succeeded = caller.call(client.clone()).await;
    client.ended(succeeded);
    let now = shared.now();
    let is_in_time = !shared.setting.deadline.is_exceeded_by(now - started);
    shared.record.ended(started, now, succeeded && is_in_time);
    now
}
