//! Traffic to watch, and faults that are switched on.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redial_core::decide::{Class, Outcome};
use redial_core::{Event, Observer};
use redial_live::{EndlessCallers, EndlessServer, Fault, Naive};

use crate::setting;

/// What a single request gets: the status, or 0 for a connection that breaks.
fn status(address: SocketAddr, path: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    // It may break.
    let _ = stream.read_to_string(&mut answer);
    if answer.contains("429") {
        assert!(answer.contains("retry-after: 1"), "{answer}");
    }
    answer.split(' ').nth(1).map_or(0, |status| status.parse().unwrap())
}

#[test]
fn faults_are_switched_on_and_off_and_end_by_themselves() {
    let server = EndlessServer::start(&setting(&[])).unwrap();
    let get = || status(server.address(), "/1");
    assert_eq!((get(), server.fault()), (200, None));
    for (fault, wanted) in [
        (Fault::Down, 503),
        (Fault::Failing(1.0), 503),
        (Fault::Failing(0.0), 200),
        (Fault::Limiting(1.0), 429),
        (Fault::LosingReplies(1.0), 0),
        (Fault::Slow(2.0), 200),
    ] {
        server.fail(fault, None);
        assert_eq!(get(), wanted, "{fault:?}");
        assert_eq!(server.fault(), Some((fault, None)));
    }
    server.recover();
    assert_eq!((get(), server.fault()), (200, None));
    server.fail(Fault::Down, Some(Duration::from_secs(3600)));
    assert_eq!(get(), 503);
    server.fail(Fault::Down, Some(Duration::ZERO));
    assert_eq!((get(), server.fault()), (200, None));
    assert_eq!(status(server.address(), "/gone/7"), 410);
}

struct Events(Mutex<Sender<Event>>);

impl Observer for Events {
    fn event(&self, event: &Event) {
        // Fails after the test.
        let _ = self.0.lock().unwrap().send(*event);
    }
}

#[test]
fn observers_see_the_attempts_of_a_naive_loop() {
    let setting = setting(&["clients.arrivals.closed.callers=1"]);
    let server = EndlessServer::start(&setting).unwrap();
    server.fail(Fault::Down, None);
    let (sender, events) = channel();
    let observer: Arc<dyn Observer> = Arc::new(Events(Mutex::new(sender)));
    let naive = Naive { pause: Duration::from_millis(1), attempts: 2 };
    let callers =
        EndlessCallers::start(&setting, server.address(), Some(observer), |_| naive).unwrap();
    let seen: Vec<Event> = events.iter().take(12).collect();
    drop(callers);
    // Twice the same call: an attempt that fails, a retry that fails, and the end.
    for call in seen.chunks(6) {
        let [first, failed, retry, second, again, end] = call else { panic!("{call:?}") };
        assert_eq!(*first, Event::Attempt { number: 1, hedge: false });
        assert_eq!(*second, Event::Attempt { number: 2, hedge: false });
        assert!(matches!(retry, Event::RetryScheduled { attempt: 2, .. }), "{retry:?}");
        for (event, wanted) in [(failed, 1), (again, 2)] {
            let Event::AttemptEnded { number, outcome: Outcome::Failure(failure), .. } = event
            else {
                panic!("{event:?}")
            };
            assert_eq!((*number, failure.class), (wanted, Class::Overloaded));
        }
        assert!(matches!(end, Event::Stopped { attempts: 2, .. }), "{end:?}");
    }
}
