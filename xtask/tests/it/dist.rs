//! The archive that is shipped, without a build of what is in it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use xtask::cargo::{metadata, output, root};
use xtask::dist::archive::Archive;
use xtask::dist::parts::{Part, licences, of_command, of_tree};
use xtask::dist::{host, sbom};

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn part(name: &str, folder: &Path) -> Part {
    let (version, licence) = ("1.0.0".to_owned(), "MIT".to_owned());
    let (folder, uses) = (folder.to_owned(), Default::default());
    Part { name: name.to_owned(), version, licence, folder, is_ours: false, uses }
}

fn lines(command: &mut Command) -> Vec<String> {
    let text = String::from_utf8(output(command).unwrap()).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn an_archive_is_complete_and_the_same_each_time() {
    let folder = folder("dist-archive");
    let program = folder.join("program");
    let script = "#!/bin/sh
case $1 in
man) mkdir -p \"$3\" && echo page > \"$3/redial.1\" ;;
completions) echo \"$2\" ;;
esac
";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.join("LICENSE"), "text of a").unwrap();
    let parts = [part("a", &folder)];
    let name = "redial-1.2.3-here".to_owned();
    let archive = Archive { name, program, parts: &parts, time: "1000000000".to_owned() };
    let packed = archive.pack(&folder).unwrap();
    assert_eq!(packed, folder.join("redial-1.2.3-here.tar.gz"));
    let listed = lines(Command::new("tar").arg("-tzf").arg(&packed));
    let files: Vec<&str> = listed
        .iter()
        .filter(|path| !path.ends_with('/'))
        .map(|path| path.strip_prefix("redial-1.2.3-here/").unwrap())
        .collect();
    let expected = [
        "CHANGELOG.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "SECURITY.md",
        "SHA256SUMS",
        "completions/_redial",
        "completions/redial",
        "completions/redial.fish",
        "licences/packages.txt",
        "licences/page.txt",
        "man/man1/redial.1",
        "redial",
        "redial.cdx.json",
        "systemd/redial-proxy.service",
        "systemd/redial-proxy.socket",
    ];
    assert_eq!(files, expected);

    let check = |folder: &Path, sums: &str| {
        lines(Command::new("sha256sum").current_dir(folder).args(["--strict", "-c", sums]))
    };
    assert_eq!(check(&folder, "redial-1.2.3-here.tar.gz.sha256").len(), 1);
    let unpacked = folder.join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    lines(Command::new("tar").current_dir(&unpacked).arg("-xzf").arg(&packed));
    let top = unpacked.join("redial-1.2.3-here");
    assert_eq!(check(&top, "SHA256SUMS").len(), expected.len() - 1);
    assert_eq!(lines(Command::new(top.join("redial")).args(["completions", "zsh"])), ["zsh"]);

    let first = fs::read(&packed).unwrap();
    archive.pack(&folder).unwrap();
    assert!(first == fs::read(&packed).unwrap(), "the second archive differs");
}

#[test]
fn a_licence_text_appears_once_with_all_its_packages() {
    let folder = folder("dist-licences");
    let texts =
        [("a", "LICENSE-MIT", "one\n"), ("b", "Licence.txt", "one\r\n"), ("c", "COPYING", "two")];
    for (name, file, text) in texts {
        fs::create_dir(folder.join(name)).unwrap();
        fs::write(folder.join(name).join(file), text).unwrap();
    }
    let parts = texts.map(|(name, ..)| part(name, &folder.join(name)));
    let expected = "== a 1.0.0: MIT\n== b 1.0.0: MIT\n\none\n\n== c 1.0.0: MIT\n\ntwo\n\n";
    assert_eq!(licences(&parts).as_deref(), Ok(expected));

    fs::remove_file(folder.join("c/COPYING")).unwrap();
    let missing = format!("c 1.0.0: MIT: no licence file in {}/c", folder.display());
    assert_eq!(licences(&parts), Err(missing));
}

#[test]
fn the_bill_names_what_is_built_in() {
    let package = |name: &str, licence: &str| {
        let manifest = format!("/src/{name}/Cargo.toml");
        json!({ "id": name, "name": name, "version": "1.0.0", "license": licence, "manifest_path": manifest })
    };
    let needs =
        |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
    let metadata = json!({
        "packages": [package("us", "MIT"), package("used", "MIT / Apache-2.0"), package("tests", "MIT")],
        "resolve": { "nodes": [
            { "id": "us", "deps": [needs("used", None), needs("tests", Some("dev"))] },
            { "id": "used", "deps": [needs("us", Some("build"))] },
        ] },
    });
    let parts = of_tree("us v1.0.0 (/src/us)\nused v1.0.0\n\nused v1.0.0 (*)\n", &metadata);
    let component = |kind, name, licence| {
        let url = format!("pkg:cargo/{name}@1.0.0");
        json!({
            "type": kind, "bom-ref": url, "name": name, "version": "1.0.0", "purl": url,
            "licenses": [{ "expression": licence }],
        })
    };
    let expected = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component("application", "us", "MIT") },
        "components": [component("library", "used", "MIT OR Apache-2.0")],
        "dependencies": [
            { "ref": "pkg:cargo/us@1.0.0", "dependsOn": ["pkg:cargo/used@1.0.0"] },
            { "ref": "pkg:cargo/used@1.0.0", "dependsOn": [] },
        ],
    });
    assert_eq!(sbom("us", &parts), expected);
}

#[test]
fn each_package_of_the_command_has_its_licence() {
    let target = host().unwrap();
    let metadata = metadata(&["--locked", "--filter-platform", &target]).unwrap();
    let parts = of_command(&target, &metadata).unwrap();
    let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
    for (name, is_built_in) in
        [("redial-cli", true), ("rustls", true), ("proptest", false), ("mlua", false)]
    {
        assert_eq!(names.contains(&name), is_built_in, "{name} in {names:?}");
    }
    licences(&parts).unwrap();
    for part in &parts {
        assert!(!part.licence.is_empty(), "{part:?}");
    }
}

#[test]
fn nothing_keeps_the_binary_from_being_stripped() {
    // Cargo 1.95 drops `strip` for a binary whose own package has a profile entry.
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert_eq!(
        manifest.matches("\nstrip = true\n").count(),
        1,
        "in profile.release, which dist inherits"
    );
    assert!(!manifest.contains(".package.redial-cli]"), "use the level of the whole profile");
}
