//! The numbers of a scenario file. Each is validated where it is read, so that an error points at it.

use std::fmt;
use std::marker::PhantomData;

use redial_core::{Span, Time};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

/// The longest duration in a scenario.
const MAX_DURATION: Span = Span::from_secs(7 * 24 * 3600);

/// A duration, from 0 to a week.
pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
    struct Text;
    impl Visitor<'_> for Text {
        type Value = Span;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a duration such as \"150ms\", at most {MAX_DURATION}")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
            let read = text.parse().ok().filter(|span| *span <= MAX_DURATION);
            read.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
        }
    }
    from.deserialize_str(Text)
}

/// A duration above zero.
pub(super) fn some_time<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
    match duration(from)? {
        Span::ZERO => Err(D::Error::custom("a duration above zero is needed")),
        span => Ok(span),
    }
}

/// A point in time, as the duration since the start of the run.
pub(super) fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
    duration(from).map(Time::at)
}

/// From 0 to 1, both included.
pub(super) fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    number(from, "a share from 0 to 1", |share| (0.0..=1.0).contains(&share))
}

/// A finite number above zero, at most 1e10.
pub(super) fn positive<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    number(from, "a number above 0 and at most 1e10", |number| number > 0.0 && number <= 1e10)
}

fn number<'de, D: Deserializer<'de>>(
    from: D,
    what: &'static str,
    fits: fn(f64) -> bool,
) -> Result<f64, D::Error> {
    struct Number(&'static str, fn(f64) -> bool);
    impl Visitor<'_> for Number {
        type Value = f64;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_f64<E: Error>(self, number: f64) -> Result<f64, E> {
            let fits = (self.1)(number);
            fits.then_some(number).ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
        }
        fn visit_i64<E: Error>(self, number: i64) -> Result<f64, E> {
            self.visit_f64(number as f64)
        }
        fn visit_u64<E: Error>(self, number: u64) -> Result<f64, E> {
            self.visit_f64(number as f64)
        }
    }
    from.deserialize_any(Number(what, fits))
}

/// An integer in a range.
pub(super) fn count<'de, D: Deserializer<'de>, const LEAST: u32, const MOST: u32>(
    from: D,
) -> Result<u32, D::Error> {
    struct Count<const LEAST: u32, const MOST: u32>;
    impl<const LEAST: u32, const MOST: u32> Visitor<'_> for Count<LEAST, MOST> {
        type Value = u32;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a whole number from {LEAST} to {MOST}")
        }
        fn visit_i64<E: Error>(self, number: i64) -> Result<u32, E> {
            let read = u32::try_from(number).ok().filter(|n| (LEAST..=MOST).contains(n));
            read.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
        }
        fn visit_u64<E: Error>(self, number: u64) -> Result<u32, E> {
            let read = u32::try_from(number).ok().filter(|n| (LEAST..=MOST).contains(n));
            read.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
        }
    }
    from.deserialize_any(Count::<LEAST, MOST>)
}

/// A table, or a list of tables. (An untagged enum would lose the place of an error.)
pub(super) fn one_or_many<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    struct Tables<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Tables<T> {
        type Value = Vec<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table, or a list of tables")
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(|one| vec![one])
        }
        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Vec<T>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(seq))
        }
    }
    from.deserialize_any(Tables(PhantomData))
}
