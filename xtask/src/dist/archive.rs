//! What is in the archive, and where?

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::parts::{Part, licences};
use super::sbom;
use crate::cargo::{output, root};

/// Files of the workspace, and where they are in the archive.
const COPIED: &[(&str, &str)] = &[
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("README.md", "README.md"),
    ("SECURITY.md", "SECURITY.md"),
    ("crates/redial-web/dist/licences.txt", "licences/page.txt"),
    ("ops/sidecar/redial-proxy.service", "systemd/redial-proxy.service"),
    ("ops/sidecar/redial-proxy.socket", "systemd/redial-proxy.socket"),
];

/// Shells, and the names of the files in which they look for completions.
const COMPLETIONS: &[(&str, &str)] =
    &[("bash", "redial"), ("fish", "redial.fish"), ("zsh", "_redial")];

/// An archive that is to be made.
#[derive(Debug)]
pub struct Archive<'a> {
    /// Its name without `.tar.gz`, and its only folder.
    pub name: String,
    /// The command for it.
    pub program: PathBuf,
    /// What the command is built from.
    pub parts: &'a [Part],
    /// The time of each file, in seconds since 1970.
    pub time: String,
}

impl Archive<'_> {
    /// Makes the archive and its checksum in this folder; returns the path of the archive.
    pub fn pack(&self, folder: &Path) -> Result<PathBuf, String> {
        let top = folder.join(&self.name);
        if top.exists() {
            fs::remove_dir_all(&top).map_err(|error| format!("{}: {error}", top.display()))?;
        }
        self.fill(&top)?;
        let file = format!("{}.tar.gz", self.name);
        let mut tar = Command::new("tar");
        // Nothing that differs from one machine to another.
        tar.args("--sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX".split(' '));
        tar.arg(format!("--mtime=@{}", self.time)).args(["--use-compress-program", "gzip -n"]);
        output(tar.current_dir(folder).args(["-cf", &file, &self.name]))?;
        let sums = checksums(folder, std::slice::from_ref(&file))?;
        write(&folder.join(format!("{file}.sha256")), sums)?;
        Ok(folder.join(file))
    }

    fn fill(&self, top: &Path) -> Result<(), String> {
        copy(&self.program, &top.join("redial"))?;
        for (from, to) in COPIED {
            copy(&root().join(from), &top.join(to))?;
        }
        for (shell, file) in COMPLETIONS {
            let text = output(Command::new(&self.program).args(["completions", shell]))?;
            write(&top.join("completions").join(file), text)?;
        }
        output(Command::new(&self.program).args(["man", "--output"]).arg(top.join("man/man1")))?;
        write(&top.join("licences/packages.txt"), licences(self.parts)?)?;
        let sbom = sbom("redial-cli", self.parts);
        write(&top.join("redial.cdx.json"), format!("{sbom:#}\n"))?;
        let mut files = Vec::new();
        list(top, "", &mut files)?;
        files.sort();
        write(&top.join("SHA256SUMS"), checksums(top, &files)?)
    }
}

/// What `sha256sum -c` reads.
fn checksums(folder: &Path, files: &[String]) -> Result<Vec<u8>, String> {
    output(Command::new("sha256sum").current_dir(folder).args(files))
}

/// The files below a folder, with their paths from the first one.
fn list(folder: &Path, prefix: &str, files: &mut Vec<String>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = format!("{prefix}{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            list(&path, &format!("{name}/"), files)?;
        } else {
            files.push(name);
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make_parent(to)?;
    let copied = fs::copy(from, to);
    copied.map(|_| ()).map_err(|error| format!("cannot copy {}: {error}", from.display()))
}

fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), String> {
    make_parent(path)?;
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn make_parent(path: &Path) -> Result<(), String> {
    let Some(parent) = path.parent() else { return Ok(()) };
    fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))
}
