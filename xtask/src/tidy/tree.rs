//! The files of the repository: those that git tracks or would track, read once and shared by every check.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use crate::cargo::output;

/// Files by their path from the workspace's folder, with `/` between folders.
#[derive(Debug)]
pub struct Tree {
    /// A file that is not UTF-8 has an empty text: a link may still point to it.
    files: BTreeMap<String, String>,
}

impl Tree {
    /// A tree from paths and texts.
    pub fn new<P: Into<String>, T: Into<String>>(files: impl IntoIterator<Item = (P, T)>) -> Self {
        Self { files: files.into_iter().map(|(path, text)| (path.into(), text.into())).collect() }
    }

    /// The files under `root` that git does not ignore.
    pub fn from_git(root: &Path) -> Result<Self, String> {
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = output(git.current_dir(root))?;
        let mut files = BTreeMap::new();
        for path in String::from_utf8_lossy(&listed).split_terminator('\0') {
            let path_on_disk = root.join(path);
            // The target of a symbolic link is read at its own path.
            if path_on_disk.is_symlink() {
                continue;
            }
            let text = match std::fs::read(&path_on_disk) {
                Ok(bytes) => String::from_utf8(bytes).unwrap_or_default(),
                // Git lists a deleted file until the deletion is added.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(format!("cannot read {path}: {error}")),
            };
            files.insert(path.to_owned(), text);
        }
        Ok(Self { files })
    }

    /// Every file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files with this extension.
    pub fn with_extension(&self, extension: &str) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(move |(path, _)| has_extension(path, extension))
    }

    /// The text of one file.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a file is in the folder `path`; the empty path is the workspace's folder.
    #[must_use]
    pub fn has_folder(&self, path: &str) -> bool {
        path.is_empty() || self.files.keys().any(|file| file.starts_with(&format!("{path}/")))
    }

    /// The number of the first line of `path` that `matches`, or 1.
    pub(super) fn line_of(&self, path: &str, matches: impl Fn(&str) -> bool) -> usize {
        let mut lines = self.get(path).unwrap_or_default().lines();
        lines.position(matches).map_or(1, |index| index + 1)
    }
}

/// Whether `path` has this extension.
pub(super) fn has_extension(path: &str, extension: &str) -> bool {
    path.strip_suffix(extension).is_some_and(|stem| stem.ends_with('.'))
}

/// The folder of `path`, empty for the workspace's folder.
pub(super) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// `path` relative to `folder`, or `None` if it leaves the tree.
pub(super) fn resolve(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
