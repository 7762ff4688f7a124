//! The same config in Envoy and, imported, in the proxy: 9 retry conditions and 13 behaviours of an upstream. The upstream
//! sees the same attempts and the caller the same status, or the difference is in `attempts.md` with its reason.
//!
//! `cargo xtask test` installs Envoy and sets `REDIAL_TEST_ENVOY`.

mod cells;
mod config;
mod page;
mod upstream;

use std::thread;

use cells::{BEHAVIOURS, Behaviour, CONDITIONS, Cell, KINDS, Kind, Seen};
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
    // One behaviour after the other: the upstream's backlog holds fewer connections than there are cells, and a connection
    // that has to be tried again would be late, which counts where requests hang.
    let cells = |behaviour| {
        let each = |(condition, _): &(&'static str, &str)| {
            KINDS.map(|kind| Cell { condition, behaviour, kind })
        };
        CONDITIONS.iter().flat_map(each).collect()
    };
    let ports = |behaviour: &Behaviour| {
        let ours = if behaviour.is_refused() { ours.refused } else { ours.live };
        [envoy.port, ours]
    };
    BEHAVIOURS.iter().flat_map(|it| compare(cells(it), ports(it), &upstream)).collect()
}

/// Runs these cells at the same time in Envoy and in the proxy, which have these ports.
fn compare(cells: Vec<Cell>, ports: [u16; 2], upstream: &Upstream) -> Vec<Compared> {
    thread::scope(|scope| {
        let run = |cell: Cell| {
            let [envoy, ours] = ports;
            let envoy = scope.spawn(move || cell.run("envoy", envoy, upstream));
            (cell, envoy, scope.spawn(move || cell.run("ours", ours, upstream)))
        };
        let running: Vec<_> = cells.into_iter().map(run).collect();
        let compared = running.into_iter().map(|(cell, envoy, ours)| Compared {
            cell,
            envoy: envoy.join().unwrap(),
            ours: ours.join().unwrap(),
        });
        compared.collect()
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
