use std::sync::Arc;

use redial_core::Nanos;
use tokio::task::JoinSet;

use crate::caller::Caller;
use crate::link::{Line, Link};
use crate::scene::Scene;
use crate::setting::{Load, Time};

/// Everybody who calls, until no call is left that began in time.
pub(crate) async fn run<C: Caller>(scene: Arc<Scene>, link: Arc<Link>, instances: Vec<Arc<C>>) {
    let mut tasks = JoinSet::new();
    match scene.setting.load {
        Load::Closed { callers, think } => {
            for number in 0..callers as usize {
                let caller = Arc::clone(&instances[number % instances.len()]);
                let number = number as u64;
                tasks.spawn(closed(Arc::clone(&scene), Arc::clone(&link), caller, think, number));
            }
        }
        Load::Open { gap } => open(&scene, &link, &instances, gap, &mut tasks).await,
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
    let mut next = think.draw_rest(&mut stream);
    while next < scene.setting.duration {
        scene.wait_until(next).await;
        let over = call(&scene, &link, &*caller).await;
        next = over + think.draw(&mut stream);
    }
}

async fn open<C: Caller>(
    scene: &Arc<Scene>,
    link: &Arc<Link>,
    instances: &[Arc<C>],
    gap: Time,
    tasks: &mut JoinSet<()>,
) {
    let mut stream = scene.stream(0);
    let mut next = gap.draw_rest(&mut stream);
    let mut turns = instances.iter().cycle();
    while next < scene.setting.duration {
        // A timer wakes once a millisecond; those who are due by then all go.
        if next > scene.now() {
            scene.wait_until(next).await;
        }
        if let Some(caller) = turns.next() {
            let (scene, link, caller) = (Arc::clone(scene), Arc::clone(link), Arc::clone(caller));
            tasks.spawn(async move {
                call(&scene, &link, &*caller).await;
            });
        }
        // Those who are done are let go, or they would pile up until the end.
        while tasks.try_join_next().is_some() {}
        next += gap.draw(&mut stream);
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
