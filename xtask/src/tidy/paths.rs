//! The modules that a Rust file declares, and the paths that it names. Reading line by line is not enough here: a `use`
//! spans several lines, and strings and comments have paths too.

/// What a file says about modules.
#[derive(Default)]
pub(super) struct Paths {
    pub(super) modules: Vec<Module>,
    /// Without those in code that is compiled only for tests.
    pub(super) named: Vec<Named>,
}

/// A `mod` declaration.
pub(super) struct Module {
    /// From the file on.
    pub(super) path: Vec<String>,
    /// Whether it is in a file of its own.
    pub(super) is_file: bool,
    pub(super) is_for_tests: bool,
}

/// A path that the code names.
#[derive(Debug)]
pub(super) struct Named {
    /// As written, from its first word on. Those in expressions and types start with `crate`, `self` or `super`.
    pub(super) path: Vec<String>,
    /// The name that a `use` gives it; `None` outside of `use`.
    pub(super) imported_as: Option<String>,
    /// The inline modules around it.
    pub(super) inside: Vec<String>,
    pub(super) line: usize,
}

/// Reads a file.
pub(super) fn read(text: &str) -> Paths {
    let (tokens, inside, paths) = (tokens(text), Vec::new(), Paths::default());
    let mut reader = Reader { tokens, at: 0, inside, end_of_tests: 0, paths };
    reader.read();
    reader.paths
}

#[derive(Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

impl Token<'_> {
    fn is_word(&self) -> bool {
        self.text.starts_with(is_word)
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words and marks of a text, without comments, strings and characters.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut found, mut rest, mut line) = (Vec::new(), text, 1);
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let length = if let Some(length) = literal_or_comment(rest) {
            length
        } else {
            let length = match first {
                _ if word > 0 => word,
                ':' if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            if !first.is_whitespace() {
                found.push(Token { text: &rest[..length], line });
            }
            length
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// The length of the comment, string or character that a text starts with.
fn literal_or_comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment(text));
    }
    let prefix = ["br", "cr", "b", "c", "r"].into_iter().find(|prefix| text.starts_with(prefix));
    let prefix = prefix.unwrap_or_default();
    let quoted = &text[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = quoted.len() - quoted.trim_start_matches('#').len();
        if quoted[hashes..].starts_with('"') {
            let start = prefix.len() + hashes + 1;
            let end = format!("\"{}", "#".repeat(hashes));
            return Some(text[start..].find(&end).map_or(text.len(), |at| start + at + end.len()));
        }
    }
    match quoted.chars().next()? {
        '"' if !prefix.ends_with('r') => Some(prefix.len() + closing(quoted, '"')),
        // A lifetime has no second quote.
        '\'' if quoted[1..].starts_with('\\') || quoted[1..].chars().nth(1) == Some('\'') => {
            Some(prefix.len() + closing(quoted, '\''))
        }
        _ => None,
    }
}

/// The length up to the quote that closes the one at the start.
fn closing(text: &str, quote: char) -> usize {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Block comments can be nested.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let step = if rest.starts_with("/*") {
            depth += 1;
            2
        } else if rest.starts_with("*/") {
            depth -= 1;
            2
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    /// The blocks around the current token; the name of those that are modules.
    inside: Vec<Option<String>>,
    /// Where the last item ends that is compiled only for tests.
    end_of_tests: usize,
    paths: Paths,
}

impl<'a> Reader<'a> {
    fn read(&mut self) {
        while let Some(token) = self.next() {
            match token.text {
                "#" if self.is_test_attribute() => self.end_of_tests = self.end_of_item(),
                "mod" if self.peek(0).is_some_and(|name| name.is_word()) => self.module(),
                "{" => self.inside.push(None),
                "}" => drop(self.inside.pop()),
                "use" if self.peek(0).is_some_and(|it| it.is_word() || "::{".contains(it.text)) => {
                    self.tree(&mut Vec::new());
                }
                "crate" | "self" | "super" if self.is(0, "::") => self.path(token),
                _ => {}
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<Token<'a>> {
        self.tokens.get(self.at + ahead).copied()
    }

    fn is(&self, ahead: usize, text: &str) -> bool {
        self.peek(ahead).is_some_and(|token| token.text == text)
    }

    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek(0);
        self.at += 1;
        token
    }

    /// Whether the attribute here is `cfg(test)` or `cfg(all(test, …))`.
    fn is_test_attribute(&self) -> bool {
        let starts_with =
            |words: &[&str]| (0..).zip(words).all(|(ahead, word)| self.is(ahead, word));
        starts_with(&["[", "cfg", "(", "test", ")"])
            || starts_with(&["[", "cfg", "(", "all", "(", "test", ","])
    }

    /// The end of the item after an attribute.
    fn end_of_item(&self) -> usize {
        let mut depth = 0;
        for (at, token) in self.tokens.iter().enumerate().skip(self.at) {
            match token.text {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            if depth == 0 && matches!(token.text, "}" | ";") {
                return at;
            }
        }
        self.tokens.len()
    }

    fn module(&mut self) {
        let Some(name) = self.next() else { return };
        let path = [self.modules(), vec![name.text.to_owned()]].concat();
        let is_file = self.is(0, ";");
        if !is_file && !self.is(0, "{") {
            return;
        }
        let is_for_tests = self.at <= self.end_of_tests;
        self.paths.modules.push(Module { path, is_file, is_for_tests });
        if !is_file {
            self.at += 1;
            self.inside.push(Some(name.text.to_owned()));
        }
    }

    fn modules(&self) -> Vec<String> {
        self.inside.iter().flatten().cloned().collect()
    }

    /// The paths of a `use`, or of a part of one, that start with `path`.
    fn tree(&mut self, path: &mut Vec<String>) {
        let start = path.len();
        let mut line = 0;
        while let Some(token) = self.peek(0) {
            match token.text {
                "::" => {}
                "{" => {
                    self.at += 1;
                    while !self.is(0, "}") && self.peek(0).is_some() {
                        self.tree(path);
                        self.at += usize::from(self.is(0, ","));
                    }
                    self.at += 1;
                    path.truncate(start);
                    return;
                }
                "," | ";" | "}" | "as" => break,
                text => {
                    path.push(text.to_owned());
                    line = token.line;
                }
            }
            self.at += 1;
        }
        let mut name = path.iter().rfind(|part| *part != "self").cloned();
        if self.is(0, "as") {
            name = self.peek(1).map(|alias| alias.text.to_owned());
            self.at += 2;
        }
        self.name(path.clone(), name, line);
        path.truncate(start);
    }

    /// A path in an expression, a type or a macro.
    fn path(&mut self, first: Token<'_>) {
        let mut path = vec![first.text.to_owned()];
        while self.is(0, "::")
            && let Some(word) = self.peek(1).filter(Token::is_word)
        {
            path.push(word.text.to_owned());
            self.at += 2;
        }
        self.name(path, None, first.line);
    }

    fn name(&mut self, path: Vec<String>, imported_as: Option<String>, line: usize) {
        if self.at > self.end_of_tests {
            let inside = self.modules();
            self.paths.named.push(Named { path, imported_as, inside, line });
        }
    }
}
