//! What only a store behind a network does: it is gone and comes back, has other clients, and says no.

mod changes;
mod errors;
mod faults;
mod partition;
mod rows;
mod server;
mod together;
