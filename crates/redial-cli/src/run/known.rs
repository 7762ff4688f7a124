//! A shell loop repeats `curl` for a page that does not exist as it repeats it for a server that is down. The exit codes of
//! common programs tell them apart, and for an HTTP error the status that the program prints.

use std::ffi::OsStr;
use std::path::Path;

use redial_core::decide::{Class, Outcome};

/// Exit codes after which another attempt cannot help.
const PERMANENT: [(&str, &[u8]); 4] = [
    // A wrong URL or option, a file that cannot be read or written, certificates, credentials, a missing file.
    (
        "curl",
        &[
            1, 2, 3, 4, 9, 23, 26, 37, 43, 47, 48, 53, 58, 59, 60, 63, 66, 67, 77, 78, 82, 83, 90,
            91,
        ],
    ),
    ("git", &[129]),
    // Usage, versions that do not match, files that cannot be selected or written, too many deletions.
    ("rsync", &[1, 2, 3, 4, 6, 11, 25]),
    // Usage, a file, a certificate, credentials.
    ("wget", &[2, 3, 5, 6]),
];

/// The exit code for a response with an error status.
const HTTP_ERROR: [(&str, u8); 2] = [("curl", 22), ("wget", 8)];

/// A program whose exit codes are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    permanent: &'static [u8],
    http_error: Option<u8>,
}

impl Known {
    /// The program that this command runs, if it is one of them.
    pub(super) fn of(command: &OsStr) -> Option<Self> {
        let name = Path::new(command).file_name()?;
        let (known, permanent) = PERMANENT.iter().find(|(known, _)| name == *known)?;
        let http_error = HTTP_ERROR.iter().find(|(known, _)| name == *known);
        Some(Self { name: known, permanent, http_error: http_error.map(|(_, code)| *code) })
    }

    /// Whether another attempt cannot help. `printed` is the status of the last response that the program printed.
    pub(super) fn is_permanent(self, code: u8, printed: Option<u16>) -> bool {
        let failure = self.status(code, printed).map(Outcome::of_status);
        let rejected =
            matches!(failure, Some(Outcome::Failure(it)) if it.class == Class::Permanent);
        rejected || self.permanent.contains(&code)
    }

    /// The error status that this exit code stands for, if the program printed it.
    pub(super) fn status(self, code: u8, printed: Option<u16>) -> Option<u16> {
        printed.filter(|status| self.http_error == Some(code) && *status >= 400)
    }
}

/// The status in a line of `curl`, of `wget`, or of a response. It counts only beside the exit code for one.
pub(super) fn status(line: &[u8]) -> Option<u16> {
    const BEFORE: [&str; 2] = ["The requested URL returned error: ", " ERROR "];
    let line = std::str::from_utf8(line).ok()?;
    // As `curl -w '%{http_code}'` prints it.
    if let [b'4' | b'5', _, _] = line.as_bytes() {
        return line.parse().ok();
    }
    let after = match line.strip_prefix("HTTP/") {
        Some(response) => response.split_once(' ')?.1,
        None => BEFORE.iter().find_map(|before| Some(line.split_once(before)?.1))?,
    };
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    after[..digits].parse().ok().filter(|_| digits == 3)
}
