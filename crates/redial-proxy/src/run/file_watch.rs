//! Follows changes of the file and of the certificates that it names.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redial_policy::file::File;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::reload::Reloader;

/// How often the file is looked at. Notifications would miss the symbolic links of a Kubernetes ConfigMap.
const LOOK_AT_FILE: Duration = Duration::from_secs(2);
/// A file that has changed is read when it has been left alone for so long.
const SETTLED: Duration = Duration::from_millis(50);

/// Reads the file again when it, or a certificate that it names, has changed.
pub(crate) async fn watch(reloader: Arc<Reloader>) {
    let Some(path) = reloader.source.as_ref().map(|source| source.path.clone()) else { return };
    let look = || Stamps::read(&path, &reloader.shared.snapshot.load().file);
    let mut known = look();
    loop {
        sleep(LOOK_AT_FILE).await;
        let mut seen = look();
        if seen == known {
            continue;
        }
        loop {
            sleep(SETTLED).await;
            let before = std::mem::replace(&mut seen, look());
            if before == seen {
                break;
            }
        }
        let rereading = Arc::clone(&reloader);
        // Fails only if it panics.
        let _ = spawn_blocking(move || rereading.reread()).await;
        // The certificates are those of the new file. A change meanwhile is one more.
        known = seen.updated(look());
    }
}

/// What identifies the contents of the files that a configuration consists of.
#[derive(PartialEq)]
struct Stamps(BTreeMap<PathBuf, Option<Stamp>>);

/// Device, inode, size, and the time of the last change in seconds and nanoseconds.
type Stamp = (u64, u64, u64, i64, i64);

impl Stamps {
    fn read(path: &PathBuf, file: &File) -> Self {
        let mut paths = vec![path];
        for upstream in &file.upstreams {
            let client = &upstream.tls;
            let server = upstream.listen_tls.as_ref();
            paths.extend(&client.ca);
            paths.extend(server.and_then(|server| server.client_ca.as_ref()));
            let identities = [client.identity.as_ref(), server.map(|server| &server.identity)];
            paths.extend(identities.into_iter().flatten().flat_map(|it| [&it.cert, &it.key]));
        }
        let stamp = |it: Metadata| (it.dev(), it.ino(), it.size(), it.ctime(), it.ctime_nsec());
        let stamped = |path: &PathBuf| (path.clone(), fs::metadata(path).ok().map(stamp));
        Self(paths.into_iter().map(stamped).collect())
    }

    /// These, for the paths of `new`.
    fn updated(&self, new: Self) -> Self {
        let Self(new) = new;
        let kept = |(path, stamp)| {
            let known = self.0.get(&path).copied().unwrap_or(stamp);
            (path, known)
        };
        Self(new.into_iter().map(kept).collect())
    }
}
