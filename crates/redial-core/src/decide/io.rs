use std::io::{Error, ErrorKind};

use super::{Class, Classify, Failure, Reach};

/// Only a refused connection is sure not to have been sent; everything else may have happened half-way.
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
            // A read that ran into its socket's timeout would block, says Unix.
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Failure::new(Class::Timeout),
            ErrorKind::Interrupted | ErrorKind::ResourceBusy => Failure::new(Class::Transient),
            _ => Failure::new(Class::Permanent),
        }
    }
}
