//! The page is for the user who started it, and not for other users or programs of this machine: a secret in the address tells
//! them apart. It is kept in a file, because a browser whose cookie is suddenly wrong gives up for good.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// The secret that the page's visitors know.
#[derive(Clone)]
pub struct Token(String);

/// In hexadecimal digits: 128 bits.
const LENGTH: usize = 32;

impl Token {
    /// A new one.
    ///
    /// # Errors
    ///
    /// The system has no entropy.
    #[allow(clippy::disallowed_methods, reason = "a secret has no weaker source to fall back to")]
    pub fn new() -> io::Result<Self> {
        let mut bytes = [0; LENGTH / 2];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The one in this file, which is created if there is none. Only its owner can read it.
    ///
    /// # Errors
    ///
    /// The file cannot be read or created, is not a token, or can be read by others.
    pub fn in_file(path: &Path) -> io::Result<Self> {
        match File::open(path) {
            Ok(file) => Self::read(file),
            Err(error) if error.kind() == ErrorKind::NotFound => Self::create(path),
            Err(error) => Err(error),
        }
    }

    fn read(file: File) -> io::Result<Self> {
        let wrong = |why: &str| Err(io::Error::new(ErrorKind::InvalidData, why.to_owned()));
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            return wrong("other users can read the token: delete the file, for a new one");
        }
        let mut text = String::new();
        // A file of another kind may be large.
        file.take(LENGTH as u64 + 2).read_to_string(&mut text)?;
        let text = text.trim_end();
        if text.len() != LENGTH || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return wrong("not a token: delete the file, for a new one");
        }
        Ok(Self(text.to_owned()))
    }

    fn create(path: &Path) -> io::Result<Self> {
        let token = Self::new()?;
        // Written beside it and linked when it is complete: a crash leaves no empty file, and of two processes one wins.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let part = path.with_file_name(format!("{name}.{}", &Self::new()?.0[..8]));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        let written = writeln!(file, "{}", token.0)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::hard_link(&part, path));
        // A file that remains is not read.
        let _ = fs::remove_file(&part);
        match written {
            Ok(()) => Ok(token),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Self::read(File::open(path)?),
            Err(error) => Err(error),
        }
    }

    /// Its text, for the address that is shown to the user.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether this is the token. The time it takes does not depend on where they differ.
    pub(crate) fn is(&self, text: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), text.as_bytes());
        let differences = ours.iter().zip(theirs).map(|(a, b)| a ^ b);
        let differ = differences.fold(0, |all, one| black_box(all | one));
        ours.len() == theirs.len() && differ == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}
