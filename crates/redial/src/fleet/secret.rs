use std::env;
use std::fs::File;
use std::io::{self, Read as _};

use redial_core::Invalid;
use redial_core::fleet::SecretSource;

/// A file that is named by mistake must not fill the memory.
const MOST_BYTES: u64 = 64 << 10;

/// Reads the secret. One newline at the end of a file is not part of it: editors and `echo` add it.
pub(super) fn resolve(secret: &SecretSource) -> Result<String, Invalid> {
    let (field, allowed, read) = match secret {
        SecretSource::File(path) => {
            ("fleet.password.file", "a readable file with the password", read_file(path))
        }
        SecretSource::Env(name) => {
            ("fleet.password.env", "an environment variable with the password", read_env(name))
        }
    };
    let wrong = |why: &str| Invalid::new(field, format!("{} ({why})", secret.place()), allowed);
    let text = read.map_err(|error| wrong(&error.to_string()))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    match line.strip_suffix('\r').unwrap_or(line) {
        "" => Err(wrong("empty")),
        password => Ok(password.to_owned()),
    }
}

/// [`env::var`] would repeat the content of a variable that is not UTF-8.
fn read_env(name: &str) -> io::Result<String> {
    let content = env::var_os(name).ok_or_else(|| io::Error::other("not set"))?;
    content.into_string().map_err(|_| io::Error::other("not UTF-8"))
}

fn read_file(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::other("larger than 64 KiB"));
    }
    Ok(text)
}
