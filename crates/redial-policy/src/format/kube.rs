//! What Kubernetes objects have in common: a group, a kind, a name and a namespace.

use crate::tree::{Cursor, Document, Node};

/// An object with its identity.
#[derive(Clone, Debug)]
pub(super) struct Object<'a> {
    pub(super) document: &'a Document,
    pub(super) top: Cursor<'a>,
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
}

/// Whether the node is an object of one of these kinds. `group` is a prefix of the `apiVersion`.
pub(super) fn is(node: &Node, group: &str, kinds: &[&str]) -> bool {
    let version = node.get("apiVersion").and_then(Node::text).unwrap_or_default();
    let kind = node.get("kind").and_then(Node::text).unwrap_or_default();
    version.starts_with(group) && kinds.contains(&kind)
}

/// The objects of this group and these kinds.
pub(super) fn objects<'a>(
    documents: &'a [Document],
    group: &'static str,
    kinds: &'static [&'static str],
) -> impl Iterator<Item = Object<'a>> {
    let mine = documents.iter().filter(move |document| is(&document.node, group, kinds));
    mine.map(|document| {
        let text = |path: &[&str]| document.node.at(path).and_then(Node::text);
        Object {
            document,
            top: Cursor::top(&document.node),
            kind: text(&["kind"]).unwrap_or_default(),
            name: text(&["metadata", "name"]).unwrap_or_default(),
            namespace: text(&["metadata", "namespace"]).unwrap_or("default"),
        }
    })
}

/// Whether a path is in the `spec`, and not in a table whose keys users choose.
pub(super) fn in_spec(path: &[&str]) -> bool {
    const CHOSEN: [&str; 5] = ["labels", "matchLabels", "headers", "withoutHeaders", "queryParams"];
    path.first() == Some(&"spec") && !path.iter().any(|key| CHOSEN.contains(key))
}

/// The full name of a service: a name without dots is in the given namespace.
pub(super) fn full_name(host: &str, namespace: &str) -> String {
    if host.contains('.') {
        return host.to_ascii_lowercase();
    }
    format!("{host}.{namespace}.svc.cluster.local").to_ascii_lowercase()
}

/// The service of a host: its first label, and its namespace if the host has one.
pub(super) fn service(host: &str) -> (String, Option<String>) {
    let mut labels = host.split('.');
    let name = object_name(labels.next().unwrap_or_default());
    let in_cluster = host.ends_with(".svc.cluster.local") || host.ends_with(".svc");
    (name, labels.next().filter(|_| in_cluster).map(object_name))
}

/// A valid name in Kubernetes: lower case, digits and `-`, starting with a letter.
pub(super) fn object_name(text: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(allowed).take(50).collect();
    let name = name.trim_matches('-');
    match name.chars().next() {
        Some(c) if c.is_ascii_alphabetic() => name.to_owned(),
        _ => format!("policy-{name}").trim_end_matches('-').to_owned(),
    }
}
