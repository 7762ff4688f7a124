use std::io;

/// Whether a call of the system failed because this machine or process has run out of something: file descriptors,
/// memory, processes. It says nothing about the job, so a handler that meets it has [not tried](super::Handled::NotTried).
pub fn is_shortage(error: &io::Error) -> bool {
    const SHORTAGES: [i32; 5] =
        [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN, libc::ENOBUFS];
    error.raw_os_error().is_some_and(|code| SHORTAGES.contains(&code))
}
