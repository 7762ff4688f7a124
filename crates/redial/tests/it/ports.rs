//! Ports for servers that a test starts, or that nothing listens on. A port that the kernel has chosen and taken back goes to the
//! next test that asks for one, so these come from below the range that the kernel chooses from. The tests of other crates
//! include this file.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 10_000;
/// Each test process has a block of its own.
const BLOCKS: u32 = 200;
const BLOCK: u16 = 100;

/// An address of the loopback that no other test gets.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = FIRST + (process::id() % BLOCKS) as u16 * BLOCK;
    loop {
        let offset = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(offset < BLOCK, "more than {BLOCK} ports are needed");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, start + offset));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}
