//! The count that is held by the turnstile or behind the lock.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use redial_core::admit::turnstile::{Occupancy, Turnstile};

use super::both;

/// A server with one place that uses a turnstile as intended.
struct Server {
    turnstile: Turnstile,
    queue: Mutex<Queue>,
    /// Only the request inside touches this; loom detects two at once.
    place: UnsafeCell<()>,
}

struct Queue {
    occupancy: Occupancy,
    waiting: u32,
}

impl Server {
    fn new(unsampled: u32) -> Arc<Self> {
        let queue = Mutex::new(Queue { occupancy: Occupancy { inside: 0, unsampled }, waiting: 0 });
        let server = Self { turnstile: Turnstile::new(1), queue, place: UnsafeCell::new(()) };
        server.locked(|queue| queue.occupancy.unsampled = unsampled);
        Arc::new(server)
    }

    fn locked<T>(&self, work: impl FnOnce(&mut Queue) -> T) -> T {
        let mut queue = self.queue.lock().unwrap();
        if let Some(occupancy) = self.turnstile.take() {
            queue.occupancy = occupancy;
        }
        let done = work(&mut queue);
        if queue.waiting == 0 {
            self.turnstile.put(queue.occupancy);
        }
        done
    }

    /// Returns whether the request is inside; otherwise it waits.
    fn arrive(&self) -> bool {
        self.turnstile.enter()
            || self.locked(|queue| {
                let enters = queue.occupancy.inside == 0 && queue.waiting == 0;
                if enters {
                    queue.occupancy.inside = 1
                } else {
                    queue.waiting += 1
                }
                enters
            })
    }

    /// Returns whether a waiting request got the place.
    fn finish(&self) -> bool {
        !self.turnstile.leave()
            && self.locked(|queue| {
                let starts = queue.waiting > 0;
                queue.occupancy.inside = u32::from(starts);
                queue.waiting -= u32::from(starts);
                starts
            })
    }

    fn inside(&self) -> u32 {
        self.locked(|queue| queue.occupancy.inside)
    }

    fn work(&self) {
        self.place.with_mut(|_| ());
    }

    /// Arrives and works, also for requests that waited meanwhile. Returns how many were served.
    fn serve(&self) -> u32 {
        let mut served = 0;
        let mut inside = self.arrive();
        while inside {
            self.work();
            served += 1;
            inside = self.finish();
        }
        served
    }
}

#[test]
fn a_waiting_request_does_not_miss_a_free_place() {
    for unsampled in [0, 2] {
        loom::model(move || {
            let server = Server::new(unsampled);
            assert!(server.arrive());
            let (one, two) = (Arc::clone(&server), Arc::clone(&server));
            let (started, entered) = both(move || one.finish(), move || two.arrive());
            assert!(started ^ entered, "the second is inside, and once");
            assert_eq!(server.inside(), 1);
        });
    }
}

#[test]
fn one_place_admits_one_and_every_request_is_served() {
    for unsampled in [0, 1, 2] {
        loom::model(move || {
            let server = Server::new(unsampled);
            let (one, two) = (Arc::clone(&server), Arc::clone(&server));
            let (a, b) = both(move || one.serve(), move || two.serve());
            assert_eq!((a + b, server.inside()), (2, 0));
        });
    }
}

#[test]
fn reading_the_count_changes_nothing() {
    loom::model(|| {
        let server = Server::new(2);
        let (one, two) = (Arc::clone(&server), Arc::clone(&server));
        let (a, b) = both(
            move || {
                let served = one.serve();
                assert!(one.inside() <= 1);
                served
            },
            move || {
                assert!(two.inside() <= 1);
                two.serve()
            },
        );
        assert_eq!((a + b, server.inside()), (2, 0));
    });
}
