//! Where the files of a crate are, from one to the next.

use super::Tree;
use super::paths::{self, Module, Paths};
use super::tree::folder;

/// A file of a crate.
pub(super) struct SourceFile {
    pub(super) path: String,
    /// The folder in which its `mod`s look for files.
    children: String,
}

impl SourceFile {
    /// The root of a target.
    pub(super) fn root(path: &str) -> Self {
        Self { path: path.to_owned(), children: folder(path).to_owned() }
    }

    pub(super) fn read(&self, tree: &Tree) -> Paths {
        paths::read(tree.get(&self.path).unwrap_or_default())
    }

    /// The file of a module that this one declares; `None` if the module is inline.
    pub(super) fn module(&self, tree: &Tree, module: &Module) -> Option<Self> {
        let names = module.path.iter().map(String::as_str);
        let parts: Vec<&str> = [self.children.as_str()].into_iter().chain(names).collect();
        // The workspace's own folder is the empty path, which would leave a slash in front.
        let stem = parts.join("/").trim_start_matches('/').to_owned();
        let candidates = [format!("{stem}.rs"), format!("{stem}/mod.rs")];
        let path =
            candidates.into_iter().find(|path| module.is_file && tree.get(path).is_some())?;
        Some(Self { path, children: stem })
    }
}
