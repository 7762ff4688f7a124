//! A file that is read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use redial_proxy::{Line, Options, Proxy, Source};

use crate::kit::{Directory, GET, OK, PATIENCE, Upstream, Wire, file, free_port, port};

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

#[test]
fn a_listener_that_moves_is_reported() {
    let upstream = Upstream::always(OK);
    let at = |port: u16| {
        let to = upstream.port;
        file(&format!(
            "[upstream.app]\nto = \"http://127.0.0.1:{to}\"\nlisten = \"127.0.0.1:{port}\"\n"
        ))
    };
    let (old, new) = (free_port(), free_port());
    let (sender, events) = channel();
    let log = move |line| drop(sender.send(line));
    let options = Options { log: Some(Arc::new(log)), ..Options::default() };
    let proxy = Proxy::start_with(&at(old), options).unwrap();
    proxy.reload(&at(old)).unwrap();
    proxy.reload(&at(new)).unwrap();
    let Line::Event { name, message } = events.recv_timeout(PATIENCE).unwrap() else {
        panic!("no event")
    };
    assert_eq!(name, "moved");
    let moved = format!("app is now reached at 127.0.0.1:{new}, no longer at 127.0.0.1:{old}");
    assert!(message.starts_with(&moved), "{message}");
}
