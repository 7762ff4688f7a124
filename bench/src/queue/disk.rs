//! Durable work is bounded by the disk. How many syncs a second are possible?

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

const FOR: Duration = Duration::from_secs(2);

/// Appends 4 KB and syncs, repeatedly.
pub(super) fn syncs_per_second(folder: &Path) -> Result<f64, String> {
    let path = folder.join("syncs");
    let syncs = || -> std::io::Result<f64> {
        let mut file = File::create(&path)?;
        let (start, mut count) = (Instant::now(), 0_u32);
        while start.elapsed() < FOR {
            file.write_all(&[b'x'; 4096])?;
            file.sync_data()?;
            count += 1;
        }
        Ok(f64::from(count) / start.elapsed().as_secs_f64())
    };
    syncs().map_err(|error| format!("{}: {error}", path.display()))
}
