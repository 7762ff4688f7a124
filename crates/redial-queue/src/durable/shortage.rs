use std::io;

/// Whether a system call failed because this machine or process has run out of something: file descriptors, memory,
/// processes. That says nothing about the job, so the attempt was [not made](super::Handled::NotTried).
pub fn is_shortage(error: &io::Error) -> bool {
    const SHORTAGES: [i32; 5] =
        [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN, libc::ENOBUFS];
    error.raw_os_error().is_some_and(|code| SHORTAGES.contains(&code))
}
