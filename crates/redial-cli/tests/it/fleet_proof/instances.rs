//! Processes of `crates/redial/examples/fleet.rs`, and their output.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::Scratch;

/// The calls of an instance per second. With up to five retries each, it could send ten.
const RATE: &str = "2";
/// They end by themselves if the test is gone.
const AT_LONGEST: &str = "600";

/// A line of an instance: its totals at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// Seconds since 1970.
    pub(super) at: f64,
    pub(super) calls: u64,
    pub(super) retries: u64,
}

impl Line {
    fn read(text: &str) -> Option<Self> {
        let (at, done) = text.split_once(" calls ")?;
        let (calls, retries) = done.split_once(" retries ")?;
        let at = at.parse::<u64>().ok()? as f64 / 1e3;
        Some(Self { at, calls: calls.parse().ok()?, retries: retries.parse().ok()? })
    }
}

pub(super) struct Instances {
    children: Vec<Option<Child>>,
    dir: Scratch,
}

impl Instances {
    pub(super) fn start(example: &Path, name: &str, count: usize, ledger: &str) -> Self {
        let dir = Scratch::new(name);
        let start = |index: usize| {
            let said = File::create(dir.path(&index.to_string())).unwrap();
            let mut command = crate::program(example);
            // No server listens on port 1 of the loopback.
            command.args([ledger, "127.0.0.1:1", RATE, AT_LONGEST]);
            Some(command.stdin(Stdio::null()).stdout(said).spawn().unwrap())
        };
        Self { children: (0..count).map(start).collect(), dir }
    }

    /// Waits until all live instances have printed so many lines from now on.
    pub(super) fn go_on(&self, lines: usize) {
        let before: Vec<usize> = self.lines().iter().map(Vec::len).collect();
        for index in (0..before.len()).filter(|index| self.children[*index].is_some()) {
            while self.lines_of(index).len() < before[index] + lines {
                // Reading the output of hundreds takes CPU time from them.
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        }
    }

    /// With SIGKILL.
    pub(super) fn kill(&mut self, count: usize) {
        for child in self.children.iter_mut().filter(|child| child.is_some()).take(count) {
            end(child);
        }
    }

    /// The lines of each instance.
    pub(super) fn lines(&self) -> Vec<Vec<Line>> {
        (0..self.children.len()).map(|index| self.lines_of(index)).collect()
    }

    fn lines_of(&self, index: usize) -> Vec<Line> {
        let said = fs::read_to_string(self.dir.path(&index.to_string())).unwrap();
        // The last line may be incomplete.
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| Line::read(line).unwrap_or_else(|| panic!("{line}"))).collect()
    }
}

impl Drop for Instances {
    fn drop(&mut self) {
        self.children.iter_mut().for_each(end);
    }
}

fn end(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}
