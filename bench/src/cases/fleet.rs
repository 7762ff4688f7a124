//! A call with a fleet budget. Its ledger never answers, so a call that waited for it would show in the count.

use std::io;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use redial::admit::budget::{Budget, WindowBudget};
use redial::{Fleet, Policy, Retry};

use super::{op, ready as operation, repeat, repeat_async};

/// Waits until the fleet's thread waits for its answer, which then lasts longer than a case.
const SETTLED: Duration = Duration::from_millis(500);

fn retry() -> (Retry, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of the loopback");
    let address = listener.local_addr().expect("it is bound");
    let fleet =
        Fleet::draft(&format!("redis://{address}"), "bench").timeout(Duration::from_secs(60));
    let fleet = fleet.open().expect("a constant");
    let window = Policy::standard().edit().budget(Budget::Window(WindowBudget::default()));
    let retry = Retry::new(window.build().expect("a constant")).fleet(&fleet).expect("a window");
    drop(listener.accept());
    thread::sleep(SETTLED);
    (retry, listener)
}

pub(crate) fn ready(n: u64) {
    let (retry, _listener) = retry();
    repeat_async(n, async |x| retry.run(|_| operation(x)).await);
}

pub(crate) fn blocking(n: u64) {
    #[inline(never)]
    fn call(retry: &Retry, x: u64) -> Result<u64, redial::Error<io::Error>> {
        retry.run_blocking(|_| op(x))
    }
    let (retry, _listener) = retry();
    repeat(n, |x| call(&retry, x));
}
