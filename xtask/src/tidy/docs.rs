//! A page that is added is read once, and lengthens the search for every other page. The limits hold for all pages together.

use super::{Finding, Tree};

/// A folder or a file, and the most words that its Markdown may have.
const LIMITS: [(&str, usize); 2] = [("docs/", 40_000), ("ARCHITECTURE.md", 3_000)];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let over = LIMITS.iter().filter_map(|(place, most)| {
        let pages = tree.with_extension("md").filter(|(path, _)| path.starts_with(place));
        let words: usize = pages.map(|(_, text)| words(text)).sum();
        (words > *most).then(|| {
            let message = format!(
                "{words} words, {most} are allowed: cut what no reader acts on, and link to what another page says"
            );
            Finding::new(place, 1, message)
        })
    });
    over.collect()
}

/// Code blocks count, and the frames of tables do not: a word has a letter or a digit.
fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}
