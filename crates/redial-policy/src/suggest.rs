use strsim::levenshtein;

/// The known name that a misspelt one probably stands for, if any is similar.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Comparing takes time proportional to the product of the lengths, and long names are not typing errors.
    if name.len() > 64 {
        return None;
    }
    let short = known.into_iter().filter(|known| known.len() <= 64);
    let (edits, known) =
        short.map(|known| (levenshtein(name, known), known)).min_by_key(|(edits, _)| *edits)?;
    (edits * 2 < known.chars().count()).then_some(known)
}

/// The question to print after an unknown name, if there is a similar one.
pub(crate) fn did_you_mean<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(name, known).map(|known| format!("did you mean `{known}`?"))
}
