use std::fmt;

use redial_core::Span;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer as _, MapAccess, Visitor};

use super::how_long::HowLong;
use super::text::duration;

/// How long a server takes for a request. In a file a time, or `{ base = "1s", per_request = "10ms" }`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServiceTime {
    /// Without other requests.
    pub base: HowLong,
    /// How much longer it takes for each request that its shard has in service when it starts, itself included.
    pub per_request: Span,
}

impl ServiceTime {
    /// Whether it takes no time at all.
    pub fn is_zero(&self) -> bool {
        self.base.is_zero() && self.per_request.is_zero()
    }

    /// How long a request takes on average that is alone, in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.base.mean() + self.per_request.as_nanos_f64()
    }
}

impl<'de> Deserialize<'de> for ServiceTime {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ServiceTimeVisitor)
    }
}

struct ServiceTimeVisitor;

impl<'de> Visitor<'de> for ServiceTimeVisitor {
    type Value = ServiceTime;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as \"10ms\", or { base = \"1s\", per_request = \"10ms\" }")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ServiceTime, E> {
        let base = HowLong::deserialize(StrDeserializer::new(text))?;
        Ok(ServiceTime { base, per_request: Span::ZERO })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ServiceTime, A::Error> {
        let first: Option<String> = map.next_key()?;
        let grows = matches!(first.as_deref(), Some("base" | "per_request"));
        let table = MapAccessDeserializer::new(Reread { first, map });
        if grows {
            Growing::deserialize(table)
                .map(|Growing { base, per_request }| ServiceTime { base, per_request })
        } else {
            HowLong::deserialize(table).map(|base| ServiceTime { base, per_request: Span::ZERO })
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Growing {
    base: HowLong,
    #[serde(deserialize_with = "duration")]
    per_request: Span,
}

/// A table whose first key was read, and is read again.
struct Reread<A> {
    first: Option<String>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Reread<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(first) => seed.deserialize(first.into_deserializer()).map(Some),
            None => self.map.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}
