//! The store in a file.

mod basics;
mod support;
