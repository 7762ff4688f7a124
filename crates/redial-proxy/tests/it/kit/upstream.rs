use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use super::{Message, PATIENCE, Wire};

/// An upstream on loopback that does with each connection what a script says.
pub(crate) struct Upstream {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Message>>>,
    connections: Arc<AtomicUsize>,
    events: Receiver<&'static str>,
}

/// A connection that an upstream has accepted.
pub(crate) struct Accepted {
    pub(crate) wire: Wire,
    /// From 0.
    pub(crate) number: usize,
    requests: Arc<Mutex<Vec<Message>>>,
    events: Sender<&'static str>,
}

impl Accepted {
    /// The next request, which the test can look at later.
    pub(crate) fn request(&mut self) -> Option<Message> {
        let request = self.wire.request()?;
        self.requests.lock().unwrap().push(request.clone());
        Some(request)
    }

    pub(crate) fn respond(&mut self, response: &str) {
        self.wire.send(response);
    }

    /// Tells the test.
    pub(crate) fn tell(&self, event: &'static str) {
        self.events.send(event).unwrap();
    }
}

impl Upstream {
    pub(crate) fn new(script: impl Fn(&mut Accepted) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<Mutex<Vec<Message>>>::default();
        let connections = Arc::<AtomicUsize>::default();
        let (sender, events) = channel();
        let script = Arc::new(script);
        let (kept, count) = (Arc::clone(&requests), Arc::clone(&connections));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                stream.set_nodelay(true).unwrap();
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (requests, events) = (Arc::clone(&kept), sender.clone());
                let script = Arc::clone(&script);
                thread::spawn(move || {
                    let wire = Wire::new(stream);
                    script(&mut Accepted { wire, number, requests, events });
                });
            }
        });
        Self { port, requests, connections, events }
    }

    /// Answers each request with the same response.
    pub(crate) fn always(response: &'static str) -> Self {
        Self::new(move |accepted| {
            while accepted.request().is_some() {
                accepted.respond(response);
            }
        })
    }

    /// Answers the requests, on whatever connection they come, with these responses in turn, and then with the last.
    pub(crate) fn in_turn(responses: &'static [&'static str]) -> Self {
        let next = AtomicUsize::new(0);
        Self::new(move |accepted| {
            while accepted.request().is_some() {
                let place = next.fetch_add(1, Ordering::SeqCst).min(responses.len() - 1);
                accepted.respond(responses[place]);
            }
        })
    }

    /// The requests that have arrived.
    pub(crate) fn requests(&self) -> Vec<Message> {
        self.requests.lock().unwrap().clone()
    }

    /// The only request that has arrived.
    pub(crate) fn only_request(&self) -> Message {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests[0].clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// What a script has told last.
    pub(crate) fn event(&self) -> &'static str {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }
}
