//! Which process makes the calls of an instance. A process that restarts, or has made its last call, is replaced by a
//! new one, whose guards know nothing. Its calls under way end with the guards that they began with.

#[derive(Debug)]
pub(super) struct Processes {
    all: Vec<Process>,
    /// The process of each instance.
    current: Vec<u32>,
    /// How often each instance was replaced.
    replaced: Vec<u32>,
    /// Processes that are gone. Their numbers are used again.
    gone: Vec<u32>,
    lifetime: u32,
}

#[derive(Clone, Copy, Debug)]
struct Process {
    /// How many calls it may still begin.
    left: u32,
    /// Its calls under way.
    calls: u32,
    is_current: bool,
}

impl Processes {
    /// One process for each instance, with the same number. `lifetime` is how many calls each may make.
    pub(super) fn new(instances: u32, lifetime: u32) -> Self {
        let process = Process { left: lifetime, calls: 0, is_current: true };
        Self {
            all: vec![process; instances as usize],
            current: (0..instances).collect(),
            replaced: vec![0; instances as usize],
            gone: Vec::new(),
            lifetime,
        }
    }

    /// The process that makes the next call of this instance, and, if it is a new one, how often the instance was
    /// replaced.
    pub(super) fn begin(&mut self, instance: u32) -> (u32, Option<u32>) {
        let current = self.current[instance as usize];
        let process = &mut self.all[current as usize];
        if process.left > 0 {
            process.left -= 1;
            process.calls += 1;
            return (current, None);
        }
        process.is_current = false;
        if process.calls == 0 {
            self.gone.push(current);
        }
        let next = self.gone.pop().unwrap_or(self.all.len() as u32);
        let fresh = Process { left: self.lifetime - 1, calls: 1, is_current: true };
        match self.all.get_mut(next as usize) {
            Some(process) => *process = fresh,
            None => self.all.push(fresh),
        }
        self.current[instance as usize] = next;
        self.replaced[instance as usize] += 1;
        (next, Some(self.replaced[instance as usize]))
    }

    /// A call of this process is over.
    pub(super) fn end(&mut self, number: u32) {
        let process = &mut self.all[number as usize];
        process.calls -= 1;
        if process.calls == 0 && !process.is_current {
            self.gone.push(number);
        }
    }

    /// The process of this instance makes no further calls.
    pub(super) fn restart(&mut self, instance: u32) {
        self.all[self.current[instance as usize] as usize].left = 0;
    }
}
