//! Clients, servers and proxies that others have written.

mod curl;
mod dialogue;
mod haproxy;
mod killed;
mod nginx;
mod run;
mod websocket;
