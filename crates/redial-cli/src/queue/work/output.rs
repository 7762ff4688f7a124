//! The output of commands. Several run at once and write to the same place, so what they print is passed on in whole lines.

use std::io;
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::ChildStdout;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

use crate::stderr::write_all;

/// After the command has ended, its children may keep its output open. A silence of this length counts as its end.
const LISTEN: Duration = Duration::from_millis(500);
/// The capacity of a pipe: what may still be in it when its command ends.
const PIPE: usize = 64 << 10;
/// A longer line is passed on in pieces, between which there may be lines of other commands.
const LONGEST_LINE: usize = 1 << 20;
/// How many texts may wait for the thread that writes.
const QUEUED: usize = 16;

/// One stream of a command.
pub(super) struct Output<R> {
    from: R,
    /// How many bytes may still be in the pipe, once the command has ended.
    left: Option<usize>,
}

impl<R: AsyncRead + Unpin> Output<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, left: None }
    }

    /// How many bytes came; `None` at the end of the stream, or once the command has ended and the rest of the pipe has been
    /// read.
    pub(super) async fn read(&mut self, bytes: &mut [u8], ended: &Notify) -> Option<usize> {
        if self.left.is_none() {
            tokio::select! {
                biased;
                () = ended.notified() => self.left = Some(PIPE),
                read = self.from.read(bytes) => return read.ok().filter(|read| *read > 0),
            }
        }
        let left = self.left.filter(|left| *left > 0)?;
        let read = timeout(LISTEN, self.from.read(bytes)).await.ok()?.ok()?;
        self.left = Some(left.saturating_sub(read));
        (read > 0).then_some(read)
    }
}

/// Our stdout, for whole lines.
///
/// A thread writes, because its reader may stall: leases must be renewed nevertheless. A command waits until its output is
/// written, so nothing grows.
pub(super) struct Stdout {
    queue: mpsc::Sender<(Vec<u8>, oneshot::Sender<io::Result<()>>)>,
}

impl Stdout {
    pub(super) fn start() -> io::Result<Self> {
        let (queue, mut queued) = mpsc::channel::<(Vec<u8>, oneshot::Sender<_>)>(QUEUED);
        let write = move || {
            while let Some((bytes, written)) = queued.blocking_recv() {
                // A command that has timed out does not wait for the result.
                let _ = written.send(write_all(&io::stdout(), &bytes).map_err(io::Error::from));
            }
        };
        thread::Builder::new().name("stdout".to_owned()).spawn(write)?;
        Ok(Self { queue })
    }

    /// Passes on what a command prints. A last line without an end gets one, or the next command would continue it.
    pub(super) async fn pass_on(
        &self,
        from: Option<ChildStdout>,
        ended: &Notify,
    ) -> io::Result<()> {
        let Some(from) = from else { return Ok(()) };
        let (mut output, mut bytes, mut begun) = (Output::new(from), [0; 16 << 10], Vec::new());
        let mut is_within_line = false;
        while let Some(read) = output.read(&mut bytes, ended).await {
            begun.extend_from_slice(&bytes[..read]);
            let whole = begun.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            let whole = whole.or((begun.len() >= LONGEST_LINE).then_some(begun.len()));
            if let Some(whole) = whole {
                let rest = begun.split_off(whole);
                is_within_line = begun.last() != Some(&b'\n');
                self.write(std::mem::replace(&mut begun, rest)).await?;
            }
        }
        if is_within_line || !begun.is_empty() {
            begun.push(b'\n');
            self.write(begun).await?;
        }
        Ok(())
    }

    async fn write(&self, bytes: Vec<u8>) -> io::Result<()> {
        let (written, result) = oneshot::channel();
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.queue.send((bytes, written)).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
        result.await.map_err(gone)?
    }
}
