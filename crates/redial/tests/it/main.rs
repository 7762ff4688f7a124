//! The runners, on paused clocks and real threads.

mod blocking;
mod cost;
mod entropy;
mod hedge;
mod options;
mod run;
mod support;
mod tower;
