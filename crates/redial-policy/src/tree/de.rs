//! A serde deserializer over a tree. Its errors have the path and the place of the value.

use std::cell::RefCell;
use std::fmt::{self, Display};

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, DeserializeSeed, Expected, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::{Cursor, Entry, Truncated, Value};
use crate::source::{Problem, Span};
use crate::suggest::did_you_mean;

/// The first whole number that did not fit and was clamped. The policy knows the range of the value, so its validation
/// error is preferred to this one.
pub(crate) type Clamped = RefCell<Option<Problem>>;

/// A node to deserialize from.
pub(crate) struct De<'a> {
    here: Cursor<'a>,
    clamped: &'a Clamped,
}

impl<'a> De<'a> {
    pub(crate) fn new(here: Cursor<'a>, clamped: &'a Clamped) -> Self {
        Self { here, clamped }
    }

    fn below(&self, key: &str, node: &'a super::Node) -> Self {
        Self { here: self.here.below(key, node), clamped: self.clamped }
    }

    fn must_be(&self, what: impl Display) -> Error {
        Error::Placed(self.here.must_be(what))
    }

    fn entries(&self) -> Result<&'a [Entry], Error> {
        self.here.node.table().map(super::Table::entries).ok_or_else(|| self.must_be("a table"))
    }

    fn visit<T>(self, visit: impl FnOnce(Self) -> Result<T, Error>) -> Result<T, Error> {
        let here = self.here.clone();
        visit(self).map_err(|error| error.at(&here))
    }

    fn whole<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Integer(number) = self.here.node.value else {
            return Err(self.must_be("a whole number"));
        };
        let fits = number.clamp(0, i64::from(u32::MAX));
        if fits != number {
            let range = format_args!("a whole number from 0 to {}", u32::MAX);
            self.clamped.borrow_mut().get_or_insert(self.here.must_be(range));
        }
        self.visit(|_| visitor.visit_u64(fits.unsigned_abs()))
    }
}

/// An error, which gets its place when it passes the node that it concerns.
#[derive(Debug)]
pub(crate) enum Error {
    /// The value must be this, with help.
    Wanted(String, Option<String>),
    /// Any other error, with help.
    Bare(String, Option<String>),
    Placed(Problem),
}

impl Error {
    fn at(self, here: &Cursor<'_>) -> Self {
        let (problem, help) = match self {
            Self::Wanted(what, help) => (here.must_be(what), help),
            Self::Bare(why, help) => (here.problem(why), help),
            placed @ Self::Placed(_) => return placed,
        };
        Self::Placed(Problem { help, ..problem })
    }

    /// At a key in the table `here`.
    fn at_key(self, here: &Cursor<'_>, key_span: Span) -> Self {
        match self.at(here) {
            Self::Placed(problem) => Self::Placed(Problem { span: Some(key_span), ..problem }),
            bare => bare,
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Wanted(what, help) => Self { help, ..Self::whole(format!("must be {what}")) },
            Error::Bare(why, help) => Self { help, ..Self::whole(why) },
            Error::Placed(problem) => problem,
        }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wanted(what, _) => write!(f, "must be {what}"),
            Self::Bare(why, _) => f.write_str(why),
            Self::Placed(problem) => write!(f, "{problem}"),
        }
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: Display>(why: T) -> Self {
        Self::Bare(why.to_string(), None)
    }

    fn invalid_type(_: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::Wanted(wanted.to_string(), None)
    }

    fn invalid_value(_: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::Wanted(wanted.to_string(), None)
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Self {
        let question = did_you_mean(name, known.iter().copied());
        Self::Wanted(one_of(known), question)
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        unknown(name, known)
    }

    fn missing_field(name: &'static str) -> Self {
        Self::Bare(format!("missing field `{name}`"), None)
    }
}

/// An unknown field.
pub(crate) fn unknown(name: &str, known: &[&str]) -> Error {
    let question = did_you_mean(name, known.iter().copied());
    let help = question.unwrap_or_else(|| format!("known fields: {}", known.join(", ")));
    Error::Bare(format!("unknown field `{}`", Truncated(name)), Some(help))
}

impl Cursor<'_> {
    /// Refuses a table with a field that is not listed.
    pub(crate) fn deny_unknown(&self, known: &[&str]) -> Result<(), Problem> {
        let entries = self.table()?.entries();
        let Some(entry) = entries.iter().find(|entry| !known.contains(&entry.key.as_str())) else {
            return Ok(());
        };
        Err(unknown(&entry.key, known).at_key(self, entry.key_span).into())
    }
}

fn one_of(known: &[&str]) -> String {
    format!("one of {}", known.join(", "))
}

impl<'de> de::Deserializer<'de> for De<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let node = self.here.node;
        self.visit(|this| match &node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(_) => visitor.visit_seq(Items { items: this.here.items(), of: &this }),
            Value::Table(_) => {
                let entries = this.entries()?;
                visitor.visit_map(Fields { entries, value: None, of: &this })
            }
        })
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.here.node.value {
            Value::Bool(value) => visitor.visit_bool(value),
            _ => Err(self.must_be("true or false")),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.whole(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.here.node.value {
            Value::Integer(_) | Value::Float(_) => self.deserialize_any(visitor),
            _ => Err(self.must_be("a number")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.here.node.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.entries()?;
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let node = self.here.node;
        let (name, name_span, content) = match &node.value {
            Value::Text(name) => (name, node.span, None),
            Value::Table(table) => match table.entries() {
                [entry] => (&entry.key, entry.key_span, Some(&entry.node)),
                several => {
                    let one = format!(
                        "must have one of {}, but has {}",
                        variants.join(", "),
                        several.len()
                    );
                    return Err(Error::Bare(one, None).at(&self.here));
                }
            },
            _ => return Err(self.must_be(one_of(variants))),
        };
        if !variants.contains(&name.as_str()) {
            let wrong = format!("must be {}, but is `{}`", one_of(variants), Truncated(name));
            let help = did_you_mean(name, variants.iter().copied());
            return Err(Error::Bare(wrong, help).at_key(&self.here, name_span));
        }
        let content = content.map(|content| self.below(name, content));
        self.visit(|_| visitor.visit_enum(Variant { name, content }))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u64 u128 f32 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'o, 'de, I> {
    items: I,
    of: &'o De<'de>,
}

impl<'de, I: Iterator<Item = Cursor<'de>>> de::SeqAccess<'de> for Items<'_, 'de, I> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let next = self.items.next();
        next.map(|here| seed.deserialize(De::new(here, self.of.clamped))).transpose()
    }
}

struct Fields<'o, 'de> {
    entries: &'de [Entry],
    value: Option<&'de Entry>,
    of: &'o De<'de>,
}

impl<'de> de::MapAccess<'de> for Fields<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some((entry, rest)) = self.entries.split_first() else { return Ok(None) };
        (self.entries, self.value) = (rest, Some(entry));
        let key = seed.deserialize(BorrowedStrDeserializer::new(&entry.key));
        key.map(Some).map_err(|error: Error| error.at_key(&self.of.here, entry.key_span))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let entry =
            self.value.take().ok_or_else(|| Error::Bare("a value without a name".into(), None))?;
        // What a type rejects after it was read belongs to its value.
        self.of.below(&entry.key, &entry.node).visit(|value| seed.deserialize(value))
    }
}

/// A variant: its name, possibly with content.
struct Variant<'de> {
    name: &'de str,
    content: Option<De<'de>>,
}

impl<'de> Variant<'de> {
    fn content(self) -> Result<De<'de>, Error> {
        let name = self.name;
        let missing =
            || Error::Bare(format!("`{name}` needs a value: write {{ {name} = … }}"), None);
        self.content.ok_or_else(missing)
    }
}

impl<'de> de::EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        Ok((seed.deserialize(BorrowedStrDeserializer::<Error>::new(self.name))?, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        let name = self.name;
        let unexpected = || Error::Bare(format!("`{name}` has no value: write \"{name}\""), None);
        if self.content.is_some() { Err(unexpected()) } else { Ok(()) }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.content()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_any(self.content()?, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        name: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_struct(self.content()?, "", name, visitor)
    }
}
