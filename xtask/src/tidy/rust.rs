//! Rust, read line by line. The code is formatted by rustfmt, so indentation shows where an item ends, and a
//! declaration starts its line. That is enough for every check, without a parser that has to follow the language.

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

/// A `mod` declaration that starts on this line.
#[derive(Debug)]
pub(super) enum Mod<'a> {
    /// `mod name;`
    File(&'a str),
    /// `mod name {`
    Inline(&'a str),
}

impl<'a> Mod<'a> {
    pub(super) fn read(line: &'a str) -> Option<Self> {
        let rest = without_visibility(line.trim_start()).strip_prefix("mod ")?;
        let name = identifier(rest);
        match rest.strip_prefix(name)?.trim_start().chars().next()? {
            ';' => Some(Self::File(name)),
            '{' if !rest.trim_end().ends_with('}') => Some(Self::Inline(name)),
            _ => None,
        }
    }
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
