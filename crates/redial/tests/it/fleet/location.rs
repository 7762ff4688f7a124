//! A fleet that is opened from the settings of a policy file.

use std::path::PathBuf;

use redial::Retry;
use redial::fleet::{Fleet, FleetDraft, Location, SecretSource};

use super::support::{Redis, WAIT, name, policy, retries, window};

/// A file that exists during the test.
struct TempFile(PathBuf);

impl TempFile {
    fn new(text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redial-secret-{}", name()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn secret(&self) -> SecretSource {
        SecretSource::File(self.0.to_str().unwrap().to_owned())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn location(redis: &str, user: Option<&str>, password: Option<SecretSource>) -> Location {
    Location { redis: redis.to_owned(), user: user.map(str::to_owned), password, ca_file: None }
}

#[test]
fn the_password_comes_from_a_file_without_its_newline() {
    let user = ["--user", "redial", "on", ">s3cret@/#", "~*", "+@all"];
    let redis = Redis::start(&[&user[..], &["--user", "default", "off"]].concat());
    for text in ["s3cret@/#", "s3cret@/#\n", "s3cret@/#\r\n"] {
        let file = TempFile::new(text);
        let location = location(&redis.url(), Some("redial"), Some(file.secret()));
        let fleet = Fleet::at(&location, "shop").and_then(FleetDraft::open).unwrap();
        let policy = policy(window(100), WAIT).edit().fleet("shop").build().unwrap();
        retries(&Retry::new(policy).fleet(&fleet).unwrap());
        fleet.leave();
    }
}

#[test]
fn a_password_that_is_not_found_is_an_error_at_opening() {
    let error = |secret| {
        let location = location("redis://h", None, Some(secret));
        Fleet::at(&location, "shop").map(drop).unwrap_err().to_string()
    };
    let missing = error(SecretSource::File("/no/such/file".to_owned()));
    assert_eq!(
        missing,
        "fleet.password.file is /no/such/file (No such file or directory (os error 2)), but must be a readable file \
         with the password"
    );
    let unset = error(SecretSource::Env("REDIAL_NO_SUCH_VARIABLE".to_owned()));
    assert_eq!(
        unset,
        "fleet.password.env is REDIAL_NO_SUCH_VARIABLE (not set), but must be an environment \
         variable with the password"
    );
    let empty = TempFile::new("\n");
    assert!(error(empty.secret()).contains("(empty)"));
    let large = TempFile::new(&"x".repeat(70_000));
    assert!(error(large.secret()).contains("larger than 64 KiB"));
}

#[test]
fn a_policy_of_another_fleet_is_refused() {
    let fleet = Fleet::open("redis://h", "shop").unwrap();
    let other = policy(window(100), WAIT).edit().fleet("cart").build().unwrap();
    let message = "fleet is cart, but must be shop, the fleet that was opened";
    assert_eq!(Retry::new(other.clone()).fleet(&fleet).unwrap_err().to_string(), message);
    assert_eq!(fleet.one_shot(&other).unwrap_err().to_string(), message);
    let unnamed = policy(window(100), WAIT);
    assert!(Retry::new(unnamed).fleet(&fleet).is_ok(), "a policy need not name one");
}
