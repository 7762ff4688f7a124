use super::{Bounds, Entry, Node, Table, Truncated, Value};
use crate::source::{Problem, TextSpan};

pub(super) fn read(text: &str) -> Result<Node, Problem> {
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut reader = Reader { text, at: start, bounds: Bounds::new() };
    let node = reader.node(1)?;
    reader.blank()?;
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.expected("the end of the text")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    bounds: Bounds,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next character.
    fn here(&self) -> TextSpan {
        let length = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        TextSpan::new(self.at..self.at + length)
    }

    fn expected(&self, what: &str) -> Problem {
        let found = match self.text[self.at..].chars().next() {
            Some(c) => format!("`{}`", Truncated(c.encode_utf8(&mut [0; 4]))),
            None => "the end".to_owned(),
        };
        Problem::at(self.here(), format!("expected {what}, found {found}"))
    }

    /// Skips white space and comments.
    fn blank(&mut self) -> Result<(), Problem> {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
            self.at += blank;
            let rest = &rest[blank..];
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let end = rest.find("*/").ok_or_else(|| {
                    Problem::at(TextSpan::new(self.at..self.at + 2), "unterminated comment")
                })?;
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn node(&mut self, depth: usize) -> Result<Node, Problem> {
        self.blank()?;
        let start = self.at;
        self.bounds.node(depth, self.here())?;
        let value = match self.peek() {
            Some(b'{') => self.table(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'a'..=b'z') => self.literal()?,
            _ => return Err(self.expected("a value")),
        };
        Ok(Node { span: TextSpan::new(start..self.at), value })
    }

    fn list(&mut self, depth: usize) -> Result<Value, Problem> {
        let mut list = Vec::new();
        self.at += 1;
        loop {
            self.blank()?;
            if self.peek() == Some(b']') {
                self.at += 1;
                return Ok(Value::List(list));
            }
            list.push(self.node(depth + 1)?);
            self.comma(b']', "`,` or `]`")?;
        }
    }

    fn table(&mut self, depth: usize) -> Result<Value, Problem> {
        let mut entries = Vec::new();
        self.at += 1;
        loop {
            self.blank()?;
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Table(Table::new(entries)?));
                }
                Some(b'"') => {}
                _ => return Err(self.expected("a key in double quotes, or `}`")),
            }
            let start = self.at;
            let key = self.string()?;
            let key_span = TextSpan::new(start..self.at);
            self.blank()?;
            if self.peek() != Some(b':') {
                return Err(self.expected("`:`"));
            }
            self.at += 1;
            let node = self.node(depth + 1)?;
            entries.push(Entry { key, key_span, node });
            self.comma(b'}', "`,` or `}`")?;
        }
    }

    /// After a value: skips a comma; a closing bracket is left.
    fn comma(&mut self, end: u8, what: &str) -> Result<(), Problem> {
        self.blank()?;
        match self.peek() {
            Some(b',') => self.at += 1,
            Some(byte) if byte == end => {}
            _ => return Err(self.expected(what)),
        }
        Ok(())
    }

    fn string(&mut self) -> Result<String, Problem> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain =
                rest.find(|c: char| c == '"' || c == '\\' || c.is_ascii_control()).ok_or_else(
                    || Problem::at(TextSpan::new(start..start + 1), "unterminated string"),
                )?;
            text.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                _ => return Err(Problem::at(self.here(), "a control character must be escaped")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Problem> {
        let start = self.at;
        let unknown = |end| Problem::at(TextSpan::new(start..end), "unknown escape");
        let letter = self.text[start + 1..].chars().next();
        self.at += 1 + letter.map_or(0, char::len_utf8);
        let c = match letter {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                let unit = self.unit().ok_or_else(|| unknown(self.at))?;
                let low = matches!(unit, 0xd800..0xdc00) && self.text[self.at..].starts_with("\\u");
                if low {
                    self.at += 2;
                    let low = self.unit().ok_or_else(|| unknown(self.at))?;
                    char::decode_utf16([unit, low]).next().and_then(Result::ok)
                } else {
                    char::from_u32(u32::from(unit))
                }
                .ok_or_else(|| unknown(self.at))?
            }
            _ => return Err(unknown(self.at)),
        };
        Ok(c)
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let unit = u16::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
        self.at += 4;
        Some(unit)
    }

    fn number(&mut self) -> Result<Value, Problem> {
        let start = self.at;
        let rest = &self.text[start..];
        let end = rest
            .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
            .unwrap_or(rest.len());
        self.at += end;
        let digits = rest[..end].trim_start_matches('-');
        let leading_zero = digits.len() > 1 && digits.starts_with('0') && {
            digits.as_bytes()[1].is_ascii_digit()
        };
        let number = rest[..end].parse().map(Value::Integer).ok().or_else(|| {
            let number = rest[..end].parse().ok().filter(|number: &f64| number.is_finite());
            number.map(Value::Float)
        });
        number
            .filter(|_| !leading_zero && !digits.starts_with('.') && !digits.ends_with('.'))
            .ok_or_else(|| Problem::at(TextSpan::new(start..self.at), "invalid number"))
    }

    fn literal(&mut self) -> Result<Value, Problem> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let value = match &rest[..end] {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => {
                let span = TextSpan::new(self.at..self.at + end);
                return Err(Problem::at(span, "strings must be in double quotes"));
            }
        };
        self.at += end;
        Ok(value)
    }
}
