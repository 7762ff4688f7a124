//! Tests that mostly wait leave the processors idle, so their programs run side by side. Each writes its output
//! to a file of its own, which is printed as a whole when the program ends.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use crate::cargo::{cannot_start, target_dir};
use crate::tally::Tally;

/// A program that runs tests.
#[derive(Debug)]
pub struct Job {
    /// What reports call it; the name of its log, too.
    pub name: String,
    /// How it is started.
    pub command: Command,
}

/// How a job ended.
#[derive(Debug)]
pub struct Ended {
    /// The job's.
    pub name: String,
    /// The tests that it counted.
    pub tally: Tally,
    /// Whether its exit code is 0.
    pub succeeded: bool,
}

/// Runs all jobs at the same time, and passes the output of each to `show` when it ends.
pub fn side_by_side(jobs: Vec<Job>, show: impl Fn(&[u8]) + Sync) -> Result<Vec<Ended>, String> {
    let folder = target_dir().join("test-logs");
    fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    thread::scope(|scope| {
        let (folder, show) = (&folder, &show);
        let running: Vec<_> =
            jobs.into_iter().map(|job| scope.spawn(move || job.run(folder, show))).collect();
        let ended =
            running.into_iter().map(|job| job.join().map_err(|_| "a job panicked".to_owned())?);
        ended.collect()
    })
}

/// Prints to standard output. If that is closed, the servers still have to be stopped and the exit code has to be
/// right, so it does not panic.
pub fn print(output: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(output).and_then(|()| stdout.flush());
}

impl Job {
    fn run(mut self, folder: &Path, show: impl Fn(&[u8])) -> Result<Ended, String> {
        let log = folder.join(format!("{}.log", self.name.replace(' ', "-")));
        show(format!("{}: running, output in {}\n", self.name, log.display()).as_bytes());
        let start = Instant::now();
        let succeeded = self.run_into(&log)?;
        let mut output = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        // The output of a program that crashed may end in the middle of a line.
        if !output.ends_with(b"\n") {
            output.push(b'\n');
        }
        let title = format!("\n-- {} ({:.1} s)\n", self.name, start.elapsed().as_secs_f64());
        show(&[title.as_bytes(), &output].concat());
        let mut tally = Tally::default();
        // Tests may print bytes that are not UTF-8.
        String::from_utf8_lossy(&output).lines().for_each(|line| tally.read(line));
        Ok(Ended { name: self.name, tally, succeeded })
    }

    fn run_into(&mut self, log: &Path) -> Result<bool, String> {
        let cannot_write = |error| format!("cannot write {}: {error}", log.display());
        let stdout = File::create(log).map_err(cannot_write)?;
        let stderr = stdout.try_clone().map_err(cannot_write)?;
        let status = self.command.stdout(stdout).stderr(stderr).status();
        let status = status.map_err(|error| cannot_start(&self.command, &error))?;
        Ok(status.success())
    }
}
