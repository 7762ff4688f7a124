/// What somebody may have meant, of the names that there are. A name that is nothing like any of them has none.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer ones are no slips of the pen, and comparing takes the product of the lengths.
    if name.len() > 64 {
        return None;
    }
    let near = known.into_iter().filter(|known| known.len() <= 64);
    let (edits, known) = near.map(|known| (edits(name, known), known)).min_by_key(|near| near.0)?;
    (edits * 2 < known.chars().count()).then_some(known)
}

/// The question after an unknown name, or nothing.
pub(crate) fn did_you_mean<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(name, known).map(|known| format!("did you mean `{known}`?"))
}

/// How many letters have to be added, removed or replaced to get from one word to the other (Levenshtein).
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.chars().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.chars().count()]
}
