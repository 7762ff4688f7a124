//! A serde deserializer over a tree. Its errors have the path and the place of the value.
//!
//! Serde ends at the first error. So a value with a problem becomes `null`, which stands for a value that is not there, and
//! the rest is deserialized again.

mod error;

use std::cell::RefCell;
use std::fmt::Display;

pub(crate) use error::Wrong;
use error::{Error, one_of};
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Visitor};
use serde::forward_to_deserialize_any;

use super::{Cursor, Entry, Node, Table, Value};
use crate::source::Problems;

/// Deserializes a value, and checks it. What has a problem becomes `null`; `None`, if nothing useful is left.
///
/// `check` knows the range of a whole number that does not fit into 32 bits, so its problem is preferred to the one that it
/// was clamped.
pub(crate) fn read<T: DeserializeOwned, U>(
    here: &Cursor<'_>,
    node: &mut Node,
    problems: &Problems,
    check: impl Fn(T, &Node) -> Result<U, Wrong>,
) -> Option<U> {
    loop {
        let clamped = Clamped::default();
        let read = T::deserialize(De { here: here.at_node(node), clamped: &clamped });
        let Wrong { problem, at } = match read.map_err(Wrong::from).and_then(|it| check(it, node)) {
            Err(wrong) => wrong,
            Ok(value) => match clamped.into_inner() {
                Some(clamped) => clamped,
                None => return Some(value),
            },
        };
        problems.extend(problem);
        let at = at.filter(|at| !std::ptr::eq(*at, node) && !problems.is_full())?;
        if !node.clear(at) {
            return None;
        }
    }
}

/// The first whole number that did not fit and was clamped.
type Clamped = RefCell<Option<Wrong>>;

/// A node to deserialize from.
struct De<'a> {
    here: Cursor<'a>,
    clamped: &'a Clamped,
}

impl<'a> De<'a> {
    fn below(&self, key: &str, node: &'a Node) -> Self {
        Self { here: self.here.below(key, node), clamped: self.clamped }
    }

    fn must_be(&self, what: impl Display) -> Error {
        Error::placed(self.here.must_be(what))
    }

    fn entries(&self) -> Result<&'a [Entry], Error> {
        self.here.node.table().map(Table::entries).ok_or_else(|| self.must_be("a table"))
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
            let (problem, at) = (Some(self.here.must_be(range)), Some(&raw const *self.here.node));
            self.clamped.borrow_mut().get_or_insert(Wrong { problem, at });
        }
        self.visit(|_| visitor.visit_u64(fits.unsigned_abs()))
    }
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
        if content.is_some_and(|content| content.value == Value::Null) {
            return Err(Error::Consequence(None));
        }
        if !variants.contains(&name.as_str()) {
            let unknown: Error = de::Error::unknown_variant(name, variants);
            return Err(unknown.at_key(&self.here, name_span));
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
        let Some(here) = self.items.find(|here| !here.is_null()) else { return Ok(None) };
        let (node, clamped) = (here.node, self.of.clamped);
        let read = De { here, clamped }.visit(|item| seed.deserialize(item));
        read.map(Some).map_err(|error| error.inside(node))
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
        let mut entries = self.entries.iter();
        let Some(entry) = entries.find(|entry| entry.node.value != Value::Null) else {
            return Ok(None);
        };
        (self.entries, self.value) = (entries.as_slice(), Some(entry));
        let key = seed.deserialize(BorrowedStrDeserializer::new(&entry.key));
        key.map(Some)
            .map_err(|error: Error| error.at_key(&self.of.here, entry.key_span).inside(&entry.node))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let entry =
            self.value.take().ok_or_else(|| Error::Bare("a value without a name".into(), None))?;
        // What a type rejects after it was read belongs to its value.
        let value = self.of.below(&entry.key, &entry.node);
        value.visit(|value| seed.deserialize(value)).map_err(|error| error.inside(&entry.node))
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
