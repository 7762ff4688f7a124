//! A file that is read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use redial_proxy::{Options, Proxy, Source};

use crate::kit::{Directory, GET, OK, Upstream, Wire, file, port};

#[test]
fn of_two_that_read_the_file_the_newer_content_wins() {
    let (old, new) = (Upstream::always(OK), Upstream::always(OK));
    let directory = Directory::new("reread");
    let of = |upstream: &Upstream| {
        file(&format!("[upstream.app]\nto = \"http://127.0.0.1:{}\"\n", upstream.port))
    };
    let (reads, (started, has_started)) = (AtomicUsize::new(0), channel());
    let (first, second) = (of(&old), of(&new));
    let read = move || match reads.fetch_add(1, Ordering::SeqCst) {
        0 => {
            started.send(()).unwrap();
            thread::sleep(Duration::from_millis(300));
            Ok(first.clone())
        }
        _ => Ok(second.clone()),
    };
    let source = Source { path: directory.file("proxy.toml"), read: Box::new(read) };
    let options = Options { source: Some(source), ..Options::default() };
    let proxy = Arc::new(Proxy::start_with(&of(&old), options).unwrap());
    let slow = Arc::clone(&proxy);
    let slow = thread::spawn(move || slow.reread());
    has_started.recv().unwrap();
    proxy.reread();
    slow.join().unwrap();
    let mut caller = Wire::connect(port(&proxy, "app"));
    caller.send(GET);
    assert_eq!(caller.response().status(), 200);
    assert_eq!((old.requests().len(), new.requests().len()), (0, 1));
}
