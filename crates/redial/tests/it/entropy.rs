//! No two callers share their waits: not in one process, and not in two that were one.

use std::io::Write;
use std::io::{Read, pipe};
use std::time::Duration;

use redial::{CancelToken, Policy, Retry};

use crate::support::{Log, RESET};

/// The waits of one failing call, without waiting for them.
fn waits() -> Vec<Duration> {
    let (log, token) = (Log::default(), CancelToken::new());
    let retry = Retry::new(Policy::standard()).idempotent().observe(log.clone());
    let _ = retry.run_blocking_with(&token, |_| {
        token.cancel();
        Err::<(), _>(RESET)
    });
    log.delays()
}

#[test]
fn every_call_has_its_own_stream() {
    let mut all: Vec<_> = (0..1_000).map(|_| waits()[0]).collect();
    all.sort_unstable();
    all.dedup();
    assert!(all.len() > 995, "{} of 1000 waits differ", all.len());
}

#[test]
#[allow(unsafe_code, reason = "there is no safe fork")]
fn a_forked_child_draws_again() {
    waits();
    let (mut reader, mut writer) = pipe().unwrap();
    // SAFETY: the child touches nothing but its own memory and the pipe, and leaves without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a child that hangs is ended by its alarm, and the test fails instead of hanging with it.
        unsafe { libc::alarm(20) };
    }
    let mine = waits()[0].as_nanos();
    if child == 0 {
        let _ = writer.write_all(&mine.to_le_bytes());
        // SAFETY: ends the child here, without running the test harness twice.
        unsafe { libc::_exit(0) };
    }
    drop(writer);
    let mut theirs = [0; 16];
    reader.read_exact(&mut theirs).unwrap();
    // SAFETY: waits for the child that was made above.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    assert_ne!(u128::from_le_bytes(theirs), mine);
}
