//! A terminal after Ctrl-S, or a log shipper that hangs, stops reading, and a write to stderr blocks. The work must not
//! block with it: leases would expire, timeouts would be missed and signals would not be handled.
//!
//! So one thread writes, from a bounded queue. Lines that do not fit are dropped and counted, and a line reports the
//! count as soon as there is room for it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::json;

use crate::log::{Form, json_line, text_line};

/// The most bytes that are queued.
const MAX_QUEUED_BYTES: usize = 256 * 1024;
/// The most bytes of forwarded output that are queued, so that there is always room for our own lines.
const FORWARD_LIMIT: usize = 192 * 1024;
/// How long forwarded output waits for room before it is dropped: so many polls.
const FORWARD_POLLS: u32 = 100;
const POLL: Duration = Duration::from_millis(10);
/// How long the process waits for queued lines before it exits.
pub(crate) const LAST_FLUSH: Duration = Duration::from_secs(1);

/// The log, and the output that commands write beside it.
pub(crate) struct Stderr {
    shared: Arc<Shared>,
}

struct Shared {
    form: Form,
    state: Mutex<State>,
    /// Notified when bytes were queued or written.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Vec<u8>>,
    /// Bytes that are queued or being written.
    bytes: usize,
    has_thread: bool,
    /// Whether the bytes that were queued last do not end with a line feed.
    is_within_line: bool,
    /// Whether a wait for room timed out, and nothing has been written since.
    is_stalled: bool,
    dropped: u64,
    /// How many dropped lines have been reported.
    reported: u64,
}

impl Stderr {
    /// `form` is the form of the line that reports dropped lines.
    pub(crate) fn new(form: Form) -> Self {
        let shared = Shared { form, state: Mutex::default(), changed: Condvar::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Queues a line, which ends with a line feed.
    pub(crate) fn line(&self, line: String) {
        let mut state = self.shared.lock();
        if !self.push(&mut state, line.as_bytes(), MAX_QUEUED_BYTES) {
            state.dropped += 1;
        }
    }

    /// Queues the output of a command. Waits while the reader is slow, but not for a reader that has stalled.
    pub(crate) async fn forward(&self, bytes: &[u8]) {
        for _ in 0..FORWARD_POLLS {
            {
                let mut state = self.shared.lock();
                if self.push(&mut state, bytes, FORWARD_LIMIT) {
                    return;
                }
                if state.is_stalled {
                    break;
                }
            }
            tokio::time::sleep(POLL).await;
        }
        let mut state = self.shared.lock();
        state.is_stalled = true;
        state.dropped += bytes.iter().filter(|byte| **byte == b'\n').count().max(1) as u64;
    }

    /// Waits until everything is written, or until the timeout. Returns whether everything is.
    pub(crate) fn flush(&self, timeout: Duration) -> bool {
        let state = self.shared.lock();
        let waited =
            self.shared.changed.wait_timeout_while(state, timeout, |state| state.bytes > 0);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_stalled |= state.bytes > 0;
        state.bytes == 0
    }

    /// Waits briefly, so that what other processes write next comes after the queued lines. Does not wait for a reader
    /// that has stalled.
    pub(crate) fn keep_order(&self) {
        if !self.shared.lock().is_stalled {
            self.flush(Duration::from_millis(50));
        }
    }

    /// How many lines have been dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.lock().dropped
    }

    fn push(&self, state: &mut State, bytes: &[u8], limit: usize) -> bool {
        if state.bytes + bytes.len() > limit {
            return false;
        }
        self.shared.report_dropped(state);
        state.add(bytes.to_vec());
        if !state.has_thread {
            let shared = Arc::clone(&self.shared);
            let started =
                thread::Builder::new().name("stderr".to_owned()).spawn(move || shared.write());
            // Without a thread nothing is written, and the queue fills up.
            state.has_thread = started.is_ok();
        }
        self.shared.changed.notify_all();
        true
    }
}

/// Writes one line, and waits for it no longer than at the end of a process.
pub(crate) fn write_line(line: &str) {
    let stderr = Stderr::new(Form::Text);
    stderr.line(format!("{line}\n"));
    stderr.flush(LAST_FLUSH);
}

impl State {
    fn add(&mut self, bytes: Vec<u8>) {
        self.is_within_line = !bytes.ends_with(b"\n");
        self.bytes += bytes.len();
        self.queue.push_back(bytes);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report_dropped(&self, state: &mut State) {
        let lines = state.dropped - state.reported;
        if lines == 0 {
            return;
        }
        state.reported = state.dropped;
        let start = if state.is_within_line { "\n" } else { "" };
        let line = match self.form {
            Form::None => return,
            Form::Text => {
                text_line(&format!("{lines} lines were dropped because stderr was not read"))
            }
            Form::Json => json_line("dropped", json!({ "lines": lines })),
        };
        state.add(format!("{start}{line}").into_bytes());
    }

    /// The thread. It ends with the process.
    fn write(&self) {
        let mut state = self.lock();
        loop {
            if let Some(bytes) = state.queue.pop_front() {
                drop(state);
                // The work continues if the log cannot be written.
                let _ = write_all(&io::stderr(), &bytes);
                state = self.lock();
                state.bytes -= bytes.len();
                state.is_stalled = false;
                if state.queue.is_empty() {
                    self.report_dropped(&mut state);
                }
                self.changed.notify_all();
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Bypasses the methods of std's handles, because a write that blocks would hold their lock, and does not duplicate the
/// descriptor, because there may be none left. Another process may have made our stderr or stdout non-blocking.
pub(crate) fn write_all(to: &impl AsFd, mut bytes: &[u8]) -> nix::Result<()> {
    while !bytes.is_empty() {
        match nix::unistd::write(to, bytes) {
            Ok(0) => return Err(Errno::EIO),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                // If this fails, the next write fails again.
                let _ = poll(&mut [PollFd::new(to.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
