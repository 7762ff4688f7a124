use super::slab::Slab;

/// How often the work of each call was executed.
#[derive(Debug)]
pub(super) struct Executions {
    all: Slab<Execution>,
    keyed: bool,
}

#[derive(Debug)]
struct Execution {
    /// How many hold it: the call, and its attempts in flight.
    held: u32,
    done: bool,
}

impl Executions {
    /// `keyed` is whether the backend recognises a repeated request.
    pub(super) fn new(keyed: bool) -> Self {
        Self { all: Slab::default(), keyed }
    }

    /// Starts a call.
    pub(super) fn begin(&mut self) -> u32 {
        self.all.add(Execution { held: 1, done: false })
    }

    pub(super) fn hold(&mut self, execution: u32) {
        self.all.get(execution).held += 1;
    }

    pub(super) fn release(&mut self, execution: u32) {
        let it = self.all.get(execution);
        it.held -= 1;
        if it.held == 0 {
            self.all.remove(execution);
        }
    }

    /// Whether the backend recognises the request's key as one that it has served.
    pub(super) fn is_recognised(&mut self, execution: u32) -> bool {
        self.keyed && self.all.get(execution).done
    }

    /// Executes the work. Returns whether that made a duplicate.
    pub(super) fn perform(&mut self, execution: u32) -> bool {
        let it = self.all.get(execution);
        std::mem::replace(&mut it.done, true) && !self.keyed
    }
}
