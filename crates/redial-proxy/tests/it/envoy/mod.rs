//! The same config in Envoy and, imported, in the proxy: 9 retry conditions and 13 behaviours of an upstream. The upstream
//! sees the same attempts and the caller the same status, or the difference is in `docs/sidecar-envoy.md` with its reason.
//!
//! `cargo xtask test` installs Envoy and sets `REDIAL_TEST_ENVOY`.

mod cells;
mod config;
mod page;
mod upstream;

use std::thread;

use cells::{BEHAVIOURS, CONDITIONS, Cell, KINDS, Kind, Seen};
use upstream::Upstream;

/// What became of a cell in Envoy and in the proxy.
struct Compared {
    cell: Cell,
    envoy: Seen,
    ours: Seen,
}

fn matrix() -> Vec<Compared> {
    let upstream = Upstream::start();
    let closed = crate::kit::free_port();
    let text = config::text(upstream.port, closed);
    let envoy = config::Envoy::start(&text);
    let ours = config::Ours::start(&text, upstream.port, closed);
    let each = |behaviour| CONDITIONS.iter().map(move |condition| (condition, behaviour));
    let cells = BEHAVIOURS.iter().flat_map(each).flat_map(|(condition, behaviour)| {
        KINDS.map(|kind| Cell { condition: condition.0, behaviour, kind })
    });
    thread::scope(|scope| {
        let (upstream, envoy, ours) = (&upstream, &envoy, &ours);
        let running: Vec<_> = cells
            .map(|cell| {
                let envoy = scope.spawn(move || cell.run("envoy", envoy.port, upstream));
                let port = if cell.behaviour.is_refused() { ours.refused } else { ours.live };
                (cell, envoy, scope.spawn(move || cell.run("ours", port, upstream)))
            })
            .collect();
        let compare = |(cell, envoy, ours): (_, thread::ScopedJoinHandle<'_, _>, _)| {
            let ours: thread::ScopedJoinHandle<'_, _> = ours;
            Compared { cell, envoy: envoy.join().unwrap(), ours: ours.join().unwrap() }
        };
        running.into_iter().map(compare).collect()
    })
}

#[test]
fn retries_are_those_of_envoy_or_the_difference_has_a_reason() {
    let all = matrix();
    let of = |kind| all.iter().filter(move |it| it.cell.kind == kind);
    let gets: Vec<&Compared> = of(Kind::Get).collect();
    page::check(&gets);
    for (get, (post, keyed)) in gets.iter().zip(of(Kind::Post).zip(of(Kind::Keyed))) {
        let cell = get.cell;
        assert_eq!(post.envoy, get.envoy, "{cell}: Envoy repeats POST as it repeats GET");
        assert_eq!(keyed.envoy, get.envoy, "{cell}: Envoy does not look at keys");
        assert_eq!(keyed.ours, get.ours, "{cell}: a POST with a key is repeated as a GET is");
        let once = Seen { attempts: 1, ..get.ours };
        let expected = if cell.behaviour.is_unprocessed() { get.ours } else { once };
        assert_eq!(post.ours, expected, "{cell}: a POST without a key is sent once");
    }
}
