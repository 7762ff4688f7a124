/// Values with numbers. The number of a removed value is used again.
#[derive(Debug)]
pub(super) struct Slab<T> {
    all: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    #[inline]
    pub(super) fn add(&mut self, thing: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = thing;
            return number;
        }
        self.all.push(thing);
        self.all.len() as u32 - 1
    }

    /// Its number may be reused.
    #[inline]
    pub(super) fn remove(&mut self, number: u32) {
        self.free.push(number);
    }

    #[inline]
    pub(super) fn get(&mut self, number: u32) -> &mut T {
        &mut self.all[number as usize]
    }

    pub(super) fn peek(&self, number: u32) -> &T {
        &self.all[number as usize]
    }

    /// Removed values included.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.all.iter_mut()
    }
}
