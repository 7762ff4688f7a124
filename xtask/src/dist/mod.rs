//! What does a user without a Rust toolchain install? `cargo xtask dist` makes `target/dist/redial-VERSION-TARGET.tar.gz`:
//! the command with its manual pages, completions and units, the licences of what is in it, a bill of materials and
//! checksums. The same commit and compiler make the same archive.

pub mod archive;
pub mod parts;
mod sbom;

use std::process::Command;

use crate::cargo::{cargo, metadata, output, root, run as succeed, target_dir};
use archive::Archive;
pub use sbom::sbom;

/// Packages each crate that is published, builds the command, and packs it.
pub fn run() -> Result<(), String> {
    // Each crate is compiled from its package, against the packages of those that it needs. Without a folder to build in, each
    // would compile its dependencies again.
    let package =
        "package --workspace --exclude xtask --exclude redial-bench --locked --target-dir";
    let mut package = cargo(package.split(' '));
    succeed(package.arg(root().join(target_dir())), "fix the package that it names")?;
    let build = "build --profile dist --locked --package redial-cli";
    succeed(&mut cargo(build.split(' ')), "fix the build")?;
    let target = host()?;
    let parts =
        parts::of_command(&target, &metadata(&["--locked", "--filter-platform", &target])?)?;
    let command = parts.iter().find(|part| part.name == "redial-cli");
    let version = &command.ok_or("redial-cli is not in its own tree")?.version;
    let time = output(Command::new("git").current_dir(root()).args(["log", "-1", "--format=%ct"]))?;
    let archive = Archive {
        name: format!("redial-{version}-{target}"),
        program: root().join(target_dir()).join("dist/redial"),
        parts: &parts,
        time: String::from_utf8_lossy(&time).trim().to_owned(),
    };
    let packed = archive.pack(&root().join(target_dir()).join("dist"))?;
    println!("{}", packed.display());
    Ok(())
}

/// The target that cargo builds for here.
pub fn host() -> Result<String, String> {
    let text = output(Command::new("rustc").arg("-vV"))?;
    let text = String::from_utf8_lossy(&text);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| format!("`rustc -vV` names no host:\n{text}"))
}
