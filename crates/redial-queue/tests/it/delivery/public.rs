//! Which addresses are public, for webhooks whose URLs users choose.

use redial::Policy;
use redial_core::decide::Class;
use redial_queue::delivery::{Deliverer, is_public};

use super::sink::{Sink, status};
use super::{deliver, failed, post};

#[test]
fn reserved_addresses_are_not_public() {
    for address in [
        "0.0.0.0",
        "0.255.255.255",
        "10.0.0.1",
        "100.64.0.0",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.169.254",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.9",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a00:1",
        "64:ff9b:1::808:808",
        "100::1",
        "2001::1",
        "2001:1ff::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff:fff::1",
        "5f00::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(!is_public(address.parse().unwrap()), "{address}");
    }
}

#[test]
fn other_addresses_are_public() {
    for address in [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.1",
        "192.167.0.1",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2000::1",
        "2001:200::1",
        "2001:4860:4860::8888",
        "2003::1",
        "2606:4700::1111",
        "3fff:1000::1",
    ] {
        assert!(is_public(address.parse().unwrap()), "{address}");
    }
}

#[tokio::test]
async fn only_public_checks_the_address_behind_every_spelling() {
    let sink = Sink::start(&[status(200)]).await;
    let careful = Deliverer::builder(&Policy::standard()).only_public().build().unwrap();
    let port = sink.url("").rsplit(':').next().unwrap().to_owned();
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "127.0.0.1.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "0.0.0.0",
        "localhost",
        "LOCALHOST",
    ] {
        let handled = deliver(&careful, post(&format!("http://{host}:{port}/"))).await;
        let (failure, cause) = failed(handled);
        assert_eq!(failure.class, Class::Permanent, "{host}: {cause}");
        assert!(cause.contains("not on the public Internet"), "{host}: {cause}");
    }
    assert_eq!(sink.connections(), 0);
}
