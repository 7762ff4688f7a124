//! A store that stands in for another one: it changes some methods, and [`delegate`] passes on the others.

/// `delegate!(inner: get list)`, in an `impl Store`, calls these methods of the field `inner`. The types of their arguments are those of
/// `redial_queue::durable::*` and `std::time`.
macro_rules! delegate {
    ($inner:ident: $($method:ident)*) => { $(delegate!(@$method $inner);)* };
    (@enqueue $inner:ident) => {
        fn enqueue<'a>(&'a self, queue: &'a str, jobs: Vec<NewJob>) -> Reply<'a, Vec<Enqueued>> {
            self.$inner.enqueue(queue, jobs)
        }
    };
    (@claim $inner:ident) => {
        fn claim<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Claims> {
            self.$inner.claim(claim)
        }
    };
    (@settle $inner:ident) => {
        fn settle<'a>(&'a self, settlements: Vec<Settlement>) -> Reply<'a, Vec<Settled>> {
            self.$inner.settle(settlements)
        }
    };
    (@beat $inner:ident) => {
        fn beat<'a>(&'a self, leases: &'a [JobLease], lease: Duration) -> Reply<'a, Vec<bool>> {
            self.$inner.beat(leases, lease)
        }
    };
    (@changed $inner:ident) => {
        fn changed<'a>(&'a self, queue: &'a str, seen: u64) -> Reply<'a, ()> {
            self.$inner.changed(queue, seen)
        }
    };
    (@get $inner:ident) => {
        fn get(&self, id: JobId) -> Reply<'_, Option<Job>> {
            self.$inner.get(id)
        }
    };
    (@list $inner:ident) => {
        fn list<'a>(&'a self, filter: &'a Filter) -> Reply<'a, Vec<Job>> {
            self.$inner.list(filter)
        }
    };
    (@count $inner:ident) => {
        fn count<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64> {
            self.$inner.count(filter)
        }
    };
    (@groups $inner:ident) => {
        fn groups<'a>(&'a self, filter: &'a Filter, most: usize) -> Reply<'a, Vec<Group>> {
            self.$inner.groups(filter, most)
        }
    };
    (@edit $inner:ident) => {
        fn edit(&self, id: JobId, edit: Edit) -> Reply<'_, bool> {
            self.$inner.edit(id, edit)
        }
    };
    (@remove $inner:ident) => {
        fn remove<'a>(&'a self, filter: &'a Filter) -> Reply<'a, u64> {
            self.$inner.remove(filter)
        }
    };
    (@redrive $inner:ident) => {
        fn redrive<'a>(&'a self, filter: &'a Filter, redrive: Redrive) -> Reply<'a, u64> {
            self.$inner.redrive(filter, redrive)
        }
    };
    (@time $inner:ident) => {
        fn time(&self) -> Reply<'_, SystemTime> {
            self.$inner.time()
        }
    };
    (@queues $inner:ident) => {
        fn queues(&self) -> Reply<'_, Vec<String>> {
            self.$inner.queues()
        }
    };
    (@settings $inner:ident) => {
        fn settings<'a>(&'a self, queue: &'a str) -> Reply<'a, QueueSettings> {
            self.$inner.settings(queue)
        }
    };
    (@set $inner:ident) => {
        fn set<'a>(&'a self, queue: &'a str, settings: &'a QueueSettings) -> Reply<'a, ()> {
            self.$inner.set(queue, settings)
        }
    };
    (@counts $inner:ident) => {
        fn counts<'a>(&'a self, queue: &'a str) -> Reply<'a, Counts> {
            self.$inner.counts(queue)
        }
    };
    (@oldest $inner:ident) => {
        fn oldest<'a>(&'a self, queue: &'a str) -> Reply<'a, Duration> {
            self.$inner.oldest(queue)
        }
    };
}
pub(crate) use delegate;
