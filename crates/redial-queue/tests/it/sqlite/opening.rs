//! Paths that do not lead to a store, and their errors.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use redial_queue::durable::{NewJob, Store, StoreError};
use redial_queue::sqlite::SqliteStore;
use redial_queue::sqlite::rusqlite::Connection;

use super::support::{Directory, open};

/// The error of opening a file that `make` has created.
fn refused(make: impl FnOnce(&std::path::Path)) -> String {
    let directory = Directory::new();
    let path = directory.path("file");
    make(&path);
    let before = fs::read(&path).ok();
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(fs::read(&path).ok() == before, "the file was changed");
    let text = error.to_string();
    assert!(matches!(error, StoreError::Invalid(_)), "{text}");
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    text
}

#[test]
fn a_file_that_is_not_a_database_is_refused() {
    for content in ["hello, this is a text", "SQLite format 3", &"x".repeat(100_000)] {
        let text = refused(|path| fs::write(path, content).unwrap());
        assert!(text.contains("is not an SQLite database"), "{text}");
    }
    let text = refused(|path| fs::create_dir(path).unwrap());
    assert!(text.contains("is not a file"), "{text}");
}

#[test]
fn a_missing_directory_is_reported() {
    let directory = Directory::new();
    let error = SqliteStore::open(directory.path("no/such/folder")).unwrap_err();
    assert!(error.to_string().contains("cannot be opened: No such file"), "{error}");
}

#[test]
fn a_read_only_file_is_reported() {
    let directory = Directory::new();
    let path = directory.path("file");
    drop(open(&path));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    if fs::OpenOptions::new().write(true).open(&path).is_ok() {
        // Root can write every file.
        return;
    }
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(error.to_string().contains("cannot be opened: Permission denied"), "{error}");
}

#[test]
fn a_database_of_another_application_is_refused() {
    let sql = |sql: &'static str| {
        refused(move |path| Connection::open(path).unwrap().execute_batch(sql).unwrap())
    };
    let other = "is a database of another application";
    let text = sql("PRAGMA application_id = 77; PRAGMA user_version = 1");
    assert!(text.contains(other), "{text}");
    let text = sql("CREATE TABLE orders (id INTEGER PRIMARY KEY)");
    assert!(text.contains(other), "{text}");
}

#[test]
fn a_newer_version_is_refused() {
    let directory = Directory::new();
    let path = directory.path("file");
    drop(open(&path));
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("UPDATE redial_store SET version = 4").unwrap();
    drop(conn);
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Invalid(_)));
    let text = error.to_string();
    assert!(text.contains("was created by a newer version of Redial"), "{text}");
    assert!(text.contains("have version 4, and this program supports 3"), "{text}");
}

#[test]
fn only_the_owner_can_read_the_file() {
    let directory = Directory::new();
    let path = directory.path("file");
    let store = open(&path);
    for name in ["file", "file-wal", "file-shm"] {
        let mode = fs::metadata(directory.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    drop(store);
    assert!(!directory.path("file-wal").exists(), "the log was moved into the file");
}

#[tokio::test]
async fn beside_the_tables_of_an_application() {
    let directory = Directory::new();
    let path = directory.path("shop");
    let shop = Connection::open(&path).unwrap();
    let sql = "CREATE TABLE orders (id INTEGER PRIMARY KEY); PRAGMA application_id = 77; \
               PRAGMA user_version = 12";
    shop.execute_batch(sql).unwrap();
    let store = SqliteStore::open_beside(&path).unwrap();
    store.enqueue("q", vec![NewJob::new("x")]).await.unwrap();
    drop(store);
    for pragma in [("application_id", 77), ("user_version", 12)] {
        let value: i64 = shop.pragma_query_value(None, pragma.0, |row| row.get(0)).unwrap();
        assert_eq!(value, pragma.1, "{} is the application's", pragma.0);
    }
    assert_eq!(open(&path).counts("q").await.unwrap().due, 1, "now it is a store");
}
