//! Stands in for spans when the feature `otel` is off.

use std::convert::Infallible;
use std::time::Duration;

use redial_core::decide::Outcome;
use redial_core::{Permit, Stop, Time};

/// Not a unit struct, so that it is made by `default` as the real one is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spans {}

impl Spans {
    #[inline(always)]
    pub(crate) fn is_enabled(&self) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn trace(&self) -> Trace {
        Trace
    }
}

pub(crate) struct Trace;

impl Trace {
    #[inline(always)]
    pub(crate) fn is_enabled(&self) -> bool {
        false
    }

    #[cfg(feature = "http-client")]
    pub(crate) fn request(&mut self, _: &http::Method, _: &http::Uri, _grpc: bool) {}

    #[inline(always)]
    pub(crate) fn sent(&mut self, _: &Permit) {}

    #[cfg(feature = "http-client")]
    pub(crate) fn resent(&mut self, _number: u32, _now: Time) {}

    #[cfg(feature = "http-client")]
    pub(crate) fn responded(&mut self, _number: u32, _status: u16) {}

    #[inline(always)]
    pub(crate) fn ended(&mut self, _number: u32, _: &Outcome, _now: Time) {}

    #[inline(always)]
    pub(crate) fn abandoned(&mut self, _number: u32) {}

    #[inline(always)]
    pub(crate) fn stopped(&mut self, _: Stop) {}

    #[inline(always)]
    pub(crate) fn parked(&self) {}

    #[inline(always)]
    pub(crate) fn released(&self, _: Duration) {}

    #[inline(always)]
    pub(crate) fn current(&self) -> Option<Current> {
        None
    }
}

/// The context of an attempt's span, which does not exist here.
#[derive(Clone, Copy)]
pub(crate) struct Current(Infallible);

impl Current {
    pub(crate) fn during<T>(&self, _: impl FnOnce() -> T) -> T {
        match self.0 {}
    }

    #[cfg(feature = "http-client")]
    pub(crate) fn write(&self, _: &mut http::HeaderMap) {
        match self.0 {}
    }
}
