use std::borrow::Cow;

use crate::source::Place;

/// The places of a config's fields, by the paths of a policy file.
#[derive(Clone, Debug, Default)]
pub struct Places {
    whole: Place,
    fields: Vec<(Cow<'static, str>, Place)>,
}

impl Places {
    /// The places of a config that starts here.
    pub fn new(whole: Place) -> Self {
        Self { whole, fields: Vec::new() }
    }

    /// Sets the place of a field, such as `backoff.jitter`.
    pub fn put(&mut self, field: impl Into<Cow<'static, str>>, place: Place) {
        self.fields.push((field.into(), place));
    }

    /// Adds the places of another part of the same config, possibly in another text.
    pub(crate) fn join(&mut self, other: &Self) {
        self.fields.extend_from_slice(&other.fields);
    }

    /// The start of the config.
    pub fn whole(&self) -> Place {
        self.whole
    }

    /// The place of a field, or of the field that contains it, or else the start of the config.
    pub fn of(&self, mut field: &str) -> Place {
        loop {
            if let Some((_, place)) = self.fields.iter().rfind(|(known, _)| *known == field) {
                return *place;
            }
            match field.rsplit_once('.') {
                Some((outer, _)) => field = outer,
                None => return self.whole,
            }
        }
    }

    /// Whether the config sets this field.
    pub fn has(&self, field: &str) -> bool {
        self.fields.iter().any(|(known, _)| *known == field)
    }
}
