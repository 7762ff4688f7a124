//! The form of durations, rates and lists of failures in a file: text, as a person writes it.

use alloc::format;
use alloc::string::ToString;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::time::{Span, TimeLimit};
use crate::units::{Rate, Unreadable};

/// `"150ms"`
impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Text("a duration such as \"150ms\"", str::parse))
    }
}

/// `"150ms"`, or `"none"` for no limit.
impl Serialize for TimeLimit {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeLimit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Text("a duration such as \"150ms\", or \"none\"", |text| match text {
            "none" => Ok(Self::NONE),
            text => text.parse().map(Span::into),
        }))
    }
}

/// `"10/s"`
impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Text("a rate such as \"10/s\"", str::parse))
    }
}

/// A table, or `"none"` for a rule that is on by default.
pub(crate) mod switch {
    use core::fmt;
    use core::marker::PhantomData;

    use super::*;
    use serde::de::MapAccess;
    use serde::de::value::MapAccessDeserializer;

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        rule: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match rule {
            Some(rule) => rule.serialize(to),
            None => to.serialize_str("none"),
        }
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        from.deserialize_any(Switch(PhantomData))
    }

    struct Switch<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Switch<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table, or \"none\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Option<T>, E> {
            match text {
                "none" => Ok(None),
                other => Err(E::invalid_value(Unexpected::Str(other), &self)),
            }
        }

        fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_none<E: Error>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }
}

struct Text<T>(&'static str, fn(&str) -> Result<T, Unreadable>);

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text)
            .map_err(|why| E::invalid_value(Unexpected::Str(text), &why.to_string().as_str()))
    }
}

/// `["connect", "timeout", 503]`
pub(crate) mod retry_on {
    use super::*;
    use crate::decide::{Class, RetryOn};
    use serde::de::SeqAccess;
    use serde::ser::SerializeSeq;

    impl Serialize for RetryOn {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            let mut list = to.serialize_seq(None)?;
            self.classes().try_for_each(|class| list.serialize_element(class.name()))?;
            self.codes().iter().try_for_each(|code| list.serialize_element(code))?;
            list.end()
        }
    }

    impl<'de> Deserialize<'de> for RetryOn {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            from.deserialize_seq(List)
        }
    }

    struct List;

    impl<'de> Visitor<'de> for List {
        type Value = RetryOn;

        fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.write_str(
                "a list of classes and status codes such as [\"connect\", \"timeout\", 503]",
            )
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RetryOn, A::Error> {
            let mut list = RetryOn::nothing();
            while let Some(item) = items.next_element()? {
                list = match item {
                    Item::Class(class) => list.class(class),
                    Item::Code(code) => list.code(code),
                };
            }
            Ok(list)
        }
    }

    enum Item {
        Class(Class),
        Code(u16),
    }

    impl<'de> Deserialize<'de> for Item {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            from.deserialize_any(ItemVisitor)
        }
    }

    struct ItemVisitor;

    impl Visitor<'_> for ItemVisitor {
        type Value = Item;

        fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            let known =
                RetryOn::transient().classes().map(Class::name).collect::<alloc::vec::Vec<_>>();
            write!(
                f,
                "a status code (1 to 16 for gRPC, 100 to 599 for HTTP) or one of {}",
                known.join(", ")
            )
        }

        fn visit_str<E: Error>(self, name: &str) -> Result<Item, E> {
            let class = Class::from_name(name).filter(|class| RetryOn::transient().has(*class));
            class.map(Item::Class).ok_or_else(|| E::invalid_value(Unexpected::Str(name), &self))
        }

        fn visit_u64<E: Error>(self, code: u64) -> Result<Item, E> {
            match u16::try_from(code) {
                Ok(code @ (1..=16 | 100..=599)) => Ok(Item::Code(code)),
                _ => Err(E::invalid_value(Unexpected::Unsigned(code), &self)),
            }
        }

        fn visit_i64<E: Error>(self, code: i64) -> Result<Item, E> {
            match u64::try_from(code) {
                Ok(code) => self.visit_u64(code),
                Err(_) => Err(E::custom(format!(
                    "invalid status code {code}: expected 1 to 16 (gRPC) or 100 to 599 (HTTP)"
                ))),
            }
        }
    }
}
