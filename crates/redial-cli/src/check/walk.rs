//! Finds the files of the arguments. A directory has more files than configs, so a file in it has to look like a config.
//! A file that an argument names is always read, and it is an error if it is not a config.

use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use redial_policy::{MOST_BYTES, Problem};

/// Directories of dependencies and build output.
const SKIPPED: [&str; 2] = ["target", "node_modules"];
const ENDINGS: [&str; 8] = ["toml", "yaml", "yml", "json", "jsonc", "properties", "ini", "config"];
/// The config file of the AWS SDKs has no extension.
const AWS: &str = "config";
const STDIN: &str = "-";

/// A file, or standard input.
pub(super) struct Input {
    pub(super) path: PathBuf,
    /// Whether it is an argument, and not found in a directory.
    pub(super) is_named: bool,
}

/// Iterates over the files of the arguments in order, and over the files of each directory by name. Holds the names of one
/// directory per level.
pub(super) struct Walk<'a> {
    arguments: std::slice::Iter<'a, PathBuf>,
    /// Pending entries, the next one last.
    rest: Vec<(PathBuf, FileType)>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(arguments: &'a [PathBuf]) -> Self {
        Self { arguments: arguments.iter(), rest: Vec::new() }
    }

    fn enter(&mut self, directory: &Path) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            let name = name.to_string_lossy();
            let is_hidden = name.starts_with('.');
            let is_wanted = if kind.is_dir() {
                !SKIPPED.contains(&&*name)
            } else {
                kind.is_file() && looks_like_config(Path::new(&*name))
            };
            if is_wanted && !is_hidden {
                entries.push((entry.path(), kind));
            }
        }
        entries.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        self.rest.append(&mut entries);
        Ok(())
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Input, (PathBuf, io::Error)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let directory = match self.rest.pop() {
                Some((path, kind)) if kind.is_dir() => path,
                Some((path, _)) => return Some(Ok(Input { path, is_named: false })),
                None => {
                    let path = self.arguments.next()?.clone();
                    if !path.is_dir() {
                        return Some(Ok(Input { path, is_named: true }));
                    }
                    path
                }
            };
            if let Err(error) = self.enter(&directory) {
                return Some(Err((directory, error)));
            }
        }
    }
}

fn looks_like_config(name: &Path) -> bool {
    let ending = name.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.contains(&ending)) || name == Path::new(AWS)
}

/// Reads a file, or standard input for `-`, up to the largest size of a config. A larger file is `None`, unless an
/// argument names it.
pub(super) fn read(input: &Input) -> Result<Option<Vec<u8>>, Problem> {
    let path = input.path.as_path();
    let broken = |error: io::Error| Problem::whole(format!("cannot read it: {error}"));
    if path == Path::new(STDIN) {
        return bounded(io::stdin().lock()).map(Some).map_err(broken);
    }
    let about = fs::metadata(path).map_err(broken)?;
    // A pipe that the shell has opened for us has a writer; any other could block for ever.
    let is_from_shell = path.starts_with("/dev/fd") || path == Path::new("/dev/stdin");
    if !about.is_file() && !is_from_shell {
        let problem = Problem::whole("not a regular file but a pipe, a socket or a device");
        return Err(problem.help("pass - to read from standard input"));
    }
    if about.len() > MOST_BYTES as u64 && !input.is_named {
        return Ok(None);
    }
    File::open(path).and_then(bounded).map(Some).map_err(broken)
}

fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The name in messages.
pub(super) fn name(path: &Path) -> String {
    if path == Path::new(STDIN) {
        return "<stdin>".to_owned();
    }
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}

/// Whether it contains a word that is rare outside of retry configs.
pub(super) fn mentions_retries(text: &[u8]) -> bool {
    // Not "retr" alone, because of "retrieve".
    const WORDS: [&[u8]; 6] =
        [b"retry", b"retries", b"retriable", b"backoff", b"resilience4j", b"max_attempts"];
    let starts = |word: &[u8], at: usize| {
        text.get(at..at + word.len()).is_some_and(|piece| piece.eq_ignore_ascii_case(word))
    };
    (0..text.len()).any(|at| WORDS.iter().any(|word| starts(word, at)))
}
