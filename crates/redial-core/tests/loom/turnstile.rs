//! The count that is here or with the one who has the lock.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use redial_core::admit::turnstile::{Lent, Turnstile};

use super::both;

/// A server with one place, as the owner of a turnstile is meant to use it.
struct Server {
    turnstile: Turnstile,
    queue: Mutex<Queue>,
    /// What only the one inside touches; loom tells when two do.
    place: UnsafeCell<()>,
}

struct Queue {
    lent: Lent,
    waiting: u32,
}

impl Server {
    fn new(unseen: u32) -> Arc<Self> {
        let queue = Mutex::new(Queue { lent: Lent { inside: 0, unseen }, waiting: 0 });
        let server = Self { turnstile: Turnstile::new(1), queue, place: UnsafeCell::new(()) };
        server.locked(|queue| queue.lent.unseen = unseen);
        Arc::new(server)
    }

    fn locked<T>(&self, work: impl FnOnce(&mut Queue) -> T) -> T {
        let mut queue = self.queue.lock().unwrap();
        if let Some(lent) = self.turnstile.take() {
            queue.lent = lent;
        }
        let done = work(&mut queue);
        if queue.waiting == 0 {
            self.turnstile.put(queue.lent);
        }
        done
    }

    /// Whether it is inside; otherwise it waits.
    fn arrive(&self) -> bool {
        self.turnstile.enter()
            || self.locked(|queue| {
                let enters = queue.lent.inside == 0 && queue.waiting == 0;
                if enters {
                    queue.lent.inside = 1
                } else {
                    queue.waiting += 1
                }
                enters
            })
    }

    /// Whether the place went to one who waited.
    fn finish(&self) -> bool {
        !self.turnstile.leave()
            && self.locked(|queue| {
                let starts = queue.waiting > 0;
                queue.lent.inside = u32::from(starts);
                queue.waiting -= u32::from(starts);
                starts
            })
    }

    fn inside(&self) -> u32 {
        self.locked(|queue| queue.lent.inside)
    }

    fn work(&self) {
        self.place.with_mut(|_| ());
    }

    /// Arrives, works, and does the same for whoever waited meanwhile. How many were served.
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
fn a_place_that_becomes_free_is_not_missed_by_the_one_who_waits() {
    for unseen in [0, 2] {
        loom::model(move || {
            let server = Server::new(unseen);
            assert!(server.arrive());
            let (one, two) = (Arc::clone(&server), Arc::clone(&server));
            let (started, entered) = both(move || one.finish(), move || two.arrive());
            assert!(started ^ entered, "the second is inside, and once");
            assert_eq!(server.inside(), 1);
        });
    }
}

#[test]
fn one_place_inside_is_one_and_nobody_is_forgotten() {
    for unseen in [0, 1, 2] {
        loom::model(move || {
            let server = Server::new(unseen);
            let (one, two) = (Arc::clone(&server), Arc::clone(&server));
            let (a, b) = both(move || one.serve(), move || two.serve());
            assert_eq!((a + b, server.inside()), (2, 0));
        });
    }
}

#[test]
fn who_only_counts_those_inside_changes_nothing() {
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
