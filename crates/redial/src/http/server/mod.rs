//! Servers that have the last word: layers for anything that serves [`http::Request`]s.
