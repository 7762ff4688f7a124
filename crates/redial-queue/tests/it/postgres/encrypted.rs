//! With TLS. The certificate is for `localhost`, and not for 127.0.0.1.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use redial_queue::durable::{NewJob, Store, StoreError};
use redial_queue::postgres::PostgresStore;

use super::server::{HOUR, QUEUE, claim, client, own};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/postgres/tls").join(name)
}

#[tokio::test]
async fn sslmode_decides_which_servers_are_trusted() {
    let own = own(&[]);
    let data = own.folder().join("data");
    let owner = fs::metadata(&data).unwrap();
    for name in ["server.pem", "server.key"] {
        let copy = data.join(name);
        fs::write(&copy, fs::read(file(name)).unwrap()).unwrap();
        fs::set_permissions(&copy, Permissions::from_mode(0o600)).unwrap();
        chown(&copy, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    let admin = client(&own.url()).await;
    for setting in ["ssl_cert_file = 'server.pem'", "ssl_key_file = 'server.key'", "ssl = on"] {
        admin.batch_execute(&format!("alter system set {setting}")).await.unwrap();
    }
    admin.batch_execute("select pg_reload_conf()").await.unwrap();
    let (port, right, wrong) = (own.address().port(), file("ca.pem"), file("server.pem"));
    let url = |host: &str, mode: &str, roots: Option<&Path>| {
        let roots = roots.map(|path| format!("&sslrootcert={}", path.display()));
        let roots = roots.unwrap_or_default();
        format!("postgres://redial@{host}:{port}/postgres?sslmode={mode}{roots}")
    };

    let plain = url("127.0.0.1", "require", None);
    let store = super::server::until_reached(|| async {
        // The server applies its settings with a delay.
        let store = PostgresStore::connect(&plain).await;
        store.map_err(|error| StoreError::Unavailable(error.to_string().into()))
    });
    let store = store.await;
    store.enqueue(QUEUE, vec![NewJob::new("x")]).await.unwrap();
    assert_eq!(claim(&store, 1, HOUR).await.unwrap().len(), 1);
    let ours = "select bool_and(s.ssl) from pg_stat_ssl s join pg_stat_activity a using (pid) \
                where a.application_name = 'redial'";
    assert!(admin.query_one(ours, &[]).await.unwrap().get::<_, bool>(0));

    for (host, mode, roots, good) in [
        ("localhost", "verify-full", &right, true),
        ("127.0.0.1", "verify-ca", &right, true),
        ("127.0.0.1", "verify-full", &right, false),
        ("localhost", "verify-full", &wrong, false),
        ("localhost", "require", &wrong, false),
    ] {
        let connected = PostgresStore::connect(&url(host, mode, Some(roots))).await;
        assert_eq!(connected.is_ok(), good, "{host} {mode} {roots:?}");
        if let Err(error) = connected {
            assert!(matches!(error, StoreError::Invalid(_)), "{error:?}");
            assert!(error.to_string().contains("invalid peer certificate"), "{error}");
        }
    }
}
