//! Counts instructions.
//!
//! A case runs twice, with few calls and with many; the difference is the cost of the calls alone, whatever the
//! process did before and after. Under valgrind a clock read is a system call, so the work of the kernel is not in
//! the count: the clock reads are listed separately.

use std::env;
use std::iter;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::cases::{FEW, MANY};

/// Which instructions of a case count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Everything,
    /// Those of the C library's clock functions.
    ClockReads,
}

/// Instructions per call for each job, with as many jobs in parallel as there are cores.
pub(crate) fn per_call(jobs: &[(&str, Of)]) -> Result<Vec<f64>, String> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let (next, results) = (AtomicUsize::new(0), Mutex::new(vec![Ok(0.0); jobs.len()]));
    let work = || {
        let mine = iter::repeat_with(|| next.fetch_add(1, Ordering::AcqRel));
        for index in mine.take_while(|index| *index < jobs.len()) {
            let (case, of) = jobs[index];
            let result = difference(case, of);
            results.lock().unwrap_or_else(PoisonError::into_inner)[index] = result;
        }
    };
    thread::scope(|scope| {
        (0..workers).for_each(|_| drop(scope.spawn(work)));
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}

fn difference(case: &str, of: Of) -> Result<f64, String> {
    let collected = |n: u64| counted(&["case", case, &n.to_string()], of).map(|(count, _)| count);
    let (few, many) = (collected(FEW)?, collected(MANY)?);
    Ok(many.saturating_sub(few) as f64 / (MANY - FEW) as f64)
}

/// The instructions of this program with these arguments, and its output.
pub(crate) fn counted(args: &[&str], of: Of) -> Result<(u64, String), String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    if of == Of::ClockReads {
        valgrind.arg("--toggle-collect=clock_gettime*");
    }
    valgrind.arg(this).args(args);
    let output = valgrind.output().map_err(|error| {
        format!("valgrind does not start ({error}): `cargo xtask setup` installs it")
    })?;
    let printed = String::from_utf8_lossy(&output.stderr);
    let count =
        printed.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    match count {
        Some(count) if output.status.success() => {
            Ok((count, String::from_utf8_lossy(&output.stdout).into_owned()))
        }
        _ => Err(format!("callgrind did not count `{}`:\n{printed}", args.join(" "))),
    }
}
