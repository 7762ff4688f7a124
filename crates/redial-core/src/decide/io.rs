use std::io::{Error, ErrorKind};

use super::{Class, Classify, Failure, Reach};

/// Only with a refused connection is it certain that nothing was sent.
impl Classify for Error {
    fn classify(&self) -> Failure {
        match self.kind() {
            ErrorKind::ConnectionRefused => Failure::new(Class::Connect),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
                Failure::new(Class::Connect).reach(Reach::Unknown)
            }
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
            | ErrorKind::UnexpectedEof => Failure::new(Class::Reset),
            // On Unix, a read that exceeds its socket's timeout fails with `WouldBlock`.
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Failure::new(Class::Timeout),
            ErrorKind::Interrupted | ErrorKind::ResourceBusy => Failure::new(Class::Transient),
            _ => Failure::new(Class::Permanent),
        }
    }
}
