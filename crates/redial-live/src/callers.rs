use std::sync::Arc;

use redial_core::Nanos;
use redial_sim::Stream;
use redial_sim::scenario::{Arrivals, Drawn, Time};
use tokio::task::JoinSet;

use crate::caller::Caller;
use crate::link::{Line, Link};
use crate::scene::Scene;

/// Everybody who calls, until no call is left that began in time.
pub(crate) async fn run<C: Caller>(scene: Arc<Scene>, link: Arc<Link>, instances: Vec<Arc<C>>) {
    let mut tasks = JoinSet::new();
    match scene.scenario().clients.arrivals {
        Arrivals::Closed { callers, think } => {
            for number in 0..callers as usize {
                let caller = Arc::clone(&instances[number % instances.len()]);
                let number = number as u64;
                tasks.spawn(closed(Arc::clone(&scene), Arc::clone(&link), caller, think, number));
            }
        }
        _ => open(&scene, &link, &instances, &mut tasks).await,
    }
    while tasks.join_next().await.is_some() {}
}

async fn closed<C: Caller>(
    scene: Arc<Scene>,
    link: Arc<Link>,
    caller: Arc<C>,
    think: Time,
    number: u64,
) {
    let mut stream = scene.stream(number);
    // As if it had gone on like this for long.
    let mut next = match think {
        Time::Always(time) => stream.between(0, time),
        Time::Drawn(_) => think.draw(&mut stream),
    };
    while next < scene.scenario().duration {
        scene.wait_until(next).await;
        let over = call(&scene, &link, &*caller).await;
        next = over + think.draw(&mut stream);
    }
}

async fn open<C: Caller>(
    scene: &Arc<Scene>,
    link: &Arc<Link>,
    instances: &[Arc<C>],
    tasks: &mut JoinSet<()>,
) {
    let scenario = scene.scenario();
    let gap = Gap::new(scenario.rate().unwrap_or(1.0), &scenario.clients.arrivals);
    let mut stream = scene.stream(0);
    let (mut next, mut count) = (0, 0);
    loop {
        count += 1;
        next = gap.next(next, count, &mut stream);
        if next >= scenario.duration {
            return;
        }
        // A timer wakes once a millisecond; those who are due by then all go.
        if next > scene.now() {
            scene.wait_until(next).await;
        }
        let caller = Arc::clone(&instances[gap.instance(count, instances.len(), &mut stream)]);
        let (scene, link) = (Arc::clone(scene), Arc::clone(link));
        tasks.spawn(async move {
            call(&scene, &link, &*caller).await;
        });
        // Those who are done are let go, or they would pile up until the end.
        while tasks.try_join_next().is_some() {}
    }
}

/// When the next call comes from outside, and to whom.
enum Gap {
    /// Equally far apart, one instance after the other; calls a second.
    Even(f64),
    /// Independent of each other.
    Random(Time),
}

impl Gap {
    fn new(rate: f64, arrivals: &Arrivals) -> Self {
        match arrivals {
            Arrivals::Constant(_) => Self::Even(rate),
            _ => Self::Random(Time::Drawn(Drawn::Exponential((1e9 / rate).round() as Nanos))),
        }
    }

    fn next(&self, last: Nanos, count: u64, stream: &mut Stream) -> Nanos {
        match self {
            // Not from one to the next, so that nothing adds up.
            Self::Even(rate) => (count as f64 * 1e9 / rate).round() as Nanos,
            Self::Random(gap) => last + gap.draw(stream),
        }
    }

    fn instance(&self, count: u64, instances: usize, stream: &mut Stream) -> usize {
        match self {
            Self::Even(_) => (count % instances as u64) as usize,
            Self::Random(_) => stream.between(0, instances as u64 - 1) as usize,
        }
    }
}

/// One call; returns when it was over.
async fn call<C: Caller>(scene: &Scene, link: &Arc<Link>, caller: &C) -> Nanos {
    let started = scene.now();
    scene.record.begun(started);
    let line = Line::new(Arc::clone(link));
    let succeeded = caller.call(line.clone()).await;
    let now = scene.now();
    scene.record.ended(started, now, line.sent(), succeeded);
    now
}
