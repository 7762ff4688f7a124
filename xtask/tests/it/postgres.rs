//! The private Postgres: it runs until its handle is dropped.

use xtask::postgres::{Postgres, ping};

#[test]
fn a_private_postgres_ends_with_its_handle() {
    let postgres = Postgres::start().expect("needs Postgres: run `cargo xtask test`");
    let (address, folder) = (postgres.address(), postgres.folder().to_owned());
    assert_eq!(ping(address), Ok(()));
    assert!(folder.join("log").is_file(), "it logs to {}", folder.display());

    drop(postgres);

    let refused = ping(address).expect_err("the server has ended");
    assert!(refused.starts_with("cannot reach postgres://127.0.0.1:"), "{refused}");
    assert!(!folder.exists(), "{} is left over", folder.display());
}

#[test]
fn a_private_postgres_starts_again_with_its_data_and_address() {
    let mut postgres = Postgres::start().expect("needs Postgres: run `cargo xtask test`");
    postgres.kill().expect("it can be killed");
    ping(postgres.address()).expect_err("the server has ended");
    postgres.start_again().expect("it starts with the data on the disk");
    assert_eq!(ping(postgres.address()), Ok(()));
}

#[test]
fn a_setting_that_does_not_exist_is_reported_with_the_log() {
    let error = Postgres::start_with(&["no_such_setting=1"]).expect_err("it does not start");
    assert!(error.contains("no_such_setting"), "{error}");
}
