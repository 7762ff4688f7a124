//! The private Redis: it runs until its handle is dropped.

use std::net::TcpListener;

use xtask::redis::{Redis, VARIABLE, ping};

#[test]
fn a_private_redis_answers() {
    let url = std::env::var(VARIABLE).expect("needs Redis: run `cargo xtask test`");
    assert_eq!(ping(&url), Ok(()));
}

#[test]
fn a_private_redis_ends_with_its_handle() {
    let redis = Redis::start().expect("needs Redis: run `cargo xtask test`");
    let (url, folder) = (redis.url(), redis.folder().to_owned());
    assert_eq!(ping(&url), Ok(()));
    assert!(folder.join("log").is_file(), "it logs to {}", folder.display());

    drop(redis);

    let refused = ping(&url).expect_err("the server has ended");
    assert!(refused.starts_with("cannot reach redis://127.0.0.1:"), "{refused}");
    assert!(!folder.exists(), "{} is left over", folder.display());
}

#[test]
fn two_private_redises_share_nothing() {
    let first = Redis::start().expect("needs Redis: run `cargo xtask test`");
    let second = Redis::start().expect("needs Redis: run `cargo xtask test`");
    assert_ne!(first.url(), second.url());
    assert_ne!(first.folder(), second.folder());
}

#[test]
fn a_server_that_never_answers_is_reported() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("a bound listener has an address");
    let error = ping(&format!("redis://{address}")).expect_err("it accepts and never answers");
    assert!(error.starts_with(&format!("cannot reach redis://{address}: ")), "{error}");
}

#[test]
fn an_address_without_a_port_is_refused() {
    let error = "`redis://localhost` is not an address: write redis://IP:PORT";
    assert_eq!(ping("redis://localhost"), Err(error.to_owned()));
}
