//! One dependency with the wrong licence affects every distributor of Redial. The licence expression of each package
//! must be satisfiable with the licences that we accept.

use serde_json::Value;

use super::arrows::{packages, text};
use super::{Finding, Tree};

const ACCEPTED: &[&str] = &[
    "MIT",
    // MIT without the duty to include its text.
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    "Unlicense",
    "MPL-2.0",
    "BSL-1.0",
    // Mozilla's root certificates: data that may be distributed with the text of the licence.
    "CDLA-Permissive-2.0",
];

/// Checks every package that is not ours.
#[must_use]
pub fn check(metadata: &Value, tree: &Tree) -> Vec<Finding> {
    const LOCK: &str = "Cargo.lock";
    let foreign = packages(metadata).filter(|package| !package["source"].is_null());
    let refused = foreign.filter(|package| !is_accepted(text(package, "license")));
    refused
        .map(|package| {
            let name = text(package, "name");
            let licence = match text(package, "license") {
                "" => "no licence expression",
                licence => licence,
            };
            let line = tree.line_of(LOCK, |line| line == format!("name = \"{name}\""));
            let message = format!(
                "`{name}` has {licence}, which we do not accept: use another crate, or add \
                 the licence to xtask/src/tidy/licences.rs with a reason"
            );
            Finding::new(LOCK, line, message)
        })
        .collect()
}

/// Whether some choice of the expression's `OR`s needs only licences that we accept.
#[must_use]
pub fn is_accepted(expression: &str) -> bool {
    // The slash is how crates wrote OR before the expressions had a standard.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { tokens: &tokens };
    // An invalid expression is not accepted.
    parser.any().is_some_and(|accepted| accepted && parser.tokens.is_empty())
}

/// Reads an expression from left to right; each method returns whether its part is accepted.
struct Parser<'a> {
    tokens: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Option<bool> {
        let mut accepted = self.all()?;
        while self.take("OR") {
            accepted |= self.all()?;
        }
        Some(accepted)
    }

    fn all(&mut self) -> Option<bool> {
        let mut accepted = self.one()?;
        while self.take("AND") {
            accepted &= self.one()?;
        }
        Some(accepted)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let accepted = self.any()?;
            return self.take(")").then_some(accepted);
        }
        let licence = self.next()?;
        if !self.take("WITH") {
            return Some(ACCEPTED.contains(&licence));
        }
        let exception = self.next()?;
        Some(ACCEPTED.contains(&format!("{licence} WITH {exception}").as_str()))
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.tokens.first() == Some(&token);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }
}
