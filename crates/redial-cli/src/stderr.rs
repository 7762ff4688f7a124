//! A terminal after Ctrl-S, or a log shipper that hangs, does not read what it is sent, and a write to it waits. Work must
//! not wait with it: leases would run out, timeouts would pass and signals would go unheard.
//!
//! So one thread writes, from a bounded queue. What does not fit is dropped and counted, and a line says how many lines
//! were dropped as soon as there is room for it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::run::{Form, clock};

/// How many bytes of lines wait to be written.
const MOST: usize = 256 * 1024;
/// How many of them may be what commands print, so that there is always room for our own lines.
const MOST_PASSED_ON: usize = 192 * 1024;
/// How long a command's output waits for room before it is dropped, in looks.
const PATIENCE: u32 = 100;
const LOOK: Duration = Duration::from_millis(10);
/// How long the end of the process waits for what is queued.
pub(crate) const GOODBYE: Duration = Duration::from_secs(1);

/// Where the log goes, and what commands print beside it.
pub(crate) struct Stderr {
    shared: Arc<Shared>,
}

struct Shared {
    form: Form,
    state: Mutex<State>,
    /// Something was queued, or was written.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Vec<u8>>,
    /// Bytes that are queued or being written.
    bytes: usize,
    has_thread: bool,
    /// Whether what was queued last ends with a line feed.
    is_within_line: bool,
    /// Whether a wait for room was in vain, and nothing was written since.
    is_stalled: bool,
    dropped: u64,
    /// How many of those have been reported.
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
        if !self.push(&mut state, line.as_bytes(), MOST) {
            state.dropped += 1;
        }
    }

    /// Queues what a command has printed. Waits while the reader is slow, and not if it reads nothing at all.
    pub(crate) async fn pass_on(&self, bytes: &[u8]) {
        for _ in 0..PATIENCE {
            {
                let mut state = self.shared.lock();
                if self.push(&mut state, bytes, MOST_PASSED_ON) {
                    return;
                }
                if state.is_stalled {
                    break;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
        let mut state = self.shared.lock();
        state.is_stalled = true;
        state.dropped += bytes.iter().filter(|byte| **byte == b'\n').count().max(1) as u64;
    }

    /// Waits until everything is written, but no longer than this. Says whether it is.
    pub(crate) fn flush(&self, most: Duration) -> bool {
        let state = self.shared.lock();
        let waited = self.shared.changed.wait_timeout_while(state, most, |state| state.bytes > 0);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_stalled |= state.bytes > 0;
        state.bytes == 0
    }

    /// Waits for a moment, so that what others write next comes after what is queued. Does not wait for a reader that has
    /// been found not to read.
    pub(crate) fn keep_order(&self) {
        if !self.shared.lock().is_stalled {
            self.flush(Duration::from_millis(50));
        }
    }

    /// How many lines were dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.lock().dropped
    }

    fn push(&self, state: &mut State, bytes: &[u8], most: usize) -> bool {
        if state.bytes + bytes.len() > most {
            return false;
        }
        self.shared.report_dropped(state);
        state.add(bytes.to_vec());
        if !state.has_thread {
            let shared = Arc::clone(&self.shared);
            let started =
                thread::Builder::new().name("stderr".to_owned()).spawn(move || shared.write());
            // Without a thread nothing is ever written, and the queue fills up.
            state.has_thread = started.is_ok();
        }
        self.shared.changed.notify_all();
        true
    }
}

/// Writes one line, and waits for that no longer than the end of a process does.
pub(crate) fn say(line: &str) {
    let stderr = Stderr::new(Form::Text);
    stderr.line(format!("{line}\n"));
    stderr.flush(GOODBYE);
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
                format!("{start}redial: {lines} lines were dropped because stderr was not read\n")
            }
            Form::Json => {
                let time = clock::wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let time = time.as_millis() as f64 / 1e3;
                format!("{start}{{\"event\":\"dropped\",\"time\":{time},\"lines\":{lines}}}\n")
            }
        };
        state.add(line.into_bytes());
    }

    /// The thread. It ends with the process.
    fn write(&self) {
        let mut state = self.lock();
        loop {
            if let Some(bytes) = state.queue.pop_front() {
                drop(state);
                // A log that cannot be written must not end the work.
                let _ = write_all(&bytes);
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

/// Not through the methods of std's handle: a write that waits would hold its lock. And not through a copy of the
/// descriptor: there may be none left. Another process may have made our stderr non-blocking.
fn write_all(mut bytes: &[u8]) -> nix::Result<()> {
    let to = io::stderr();
    while !bytes.is_empty() {
        match nix::unistd::write(&to, bytes) {
            Ok(0) => return Err(Errno::EIO),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                // If this fails, the next write says so again.
                let _ = poll(&mut [PollFd::new(to.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
