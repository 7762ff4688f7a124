//! Rust, read line by line. The code is formatted by rustfmt, so indentation shows where an item ends, and a
//! declaration starts its line. That is enough for these checks; `paths.rs` reads what they cannot.

/// A line's leading spaces.
pub(super) fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The name of the function that starts on this line.
pub(super) fn function(line: &str) -> Option<&str> {
    let mut rest = without_visibility(line.trim_start());
    loop {
        if let Some(name) = rest.strip_prefix("fn ") {
            return Some(identifier(name));
        }
        rest = match rest.split_once(' ') {
            Some(("default" | "const" | "async" | "unsafe" | "safe" | "extern", rest)) => rest,
            Some((abi, rest)) if abi.starts_with('"') => rest,
            _ => return None,
        };
    }
}

/// The name of the constant that is declared on this line.
pub(super) fn constant(line: &str) -> Option<&str> {
    let item = without_visibility(line.trim_start());
    let rest = item.strip_prefix("const ").or_else(|| item.strip_prefix("static "))?;
    let name = identifier(rest);
    rest[name.len()..].starts_with(':').then_some(name)
}

/// The name of the type or trait that this line makes public to other crates, if its module is public too.
pub(super) fn public_type(line: &str) -> Option<&str> {
    let item = line.trim_start().strip_prefix("pub ")?;
    let kinds = ["struct ", "enum ", "trait ", "type "];
    kinds.iter().find_map(|kind| item.strip_prefix(kind)).map(identifier)
}

/// The comment on this line, from its slashes on; empty without one.
pub(super) fn comment(line: &str) -> &str {
    let bytes = line.as_bytes();
    let mut in_string = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'"' if !in_string
                && bytes[..at].ends_with(b"'")
                && bytes[at + 1..].starts_with(b"'") => {}
            b'"' => in_string = !in_string,
            b'/' if !in_string && bytes[at..].starts_with(b"//") => return &line[at..],
            _ => {}
        }
        at += 1;
    }
    ""
}

/// A line without its comment and the space before that.
pub(super) fn code(line: &str) -> &str {
    line[..line.len() - comment(line).len()].trim_end()
}

fn without_visibility(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else {
        return line;
    };
    match rest.strip_prefix('(').and_then(|scope| scope.split_once(") ")) {
        Some((_, item)) => item,
        None => rest.strip_prefix(' ').unwrap_or(line),
    }
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}
