//! Every connection is an open file, and every command needs a few pipes. The usual soft limit of 1,024 open files exists for
//! programs that use `select`. This one does not, but the commands that it runs may, so they keep the former limit.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, rlim_t, setrlimit};

/// The soft limit before it was raised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before(rlim_t);

/// Raises the soft limit of open files as far as the process may. `None` if it was not changed.
pub(crate) fn raise() -> Option<Before> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    // Without a hard limit, as in some containers, programs that close all descriptors one by one would take minutes.
    const MAX_OPEN_FILES: rlim_t = 1 << 20;
    let wanted = hard.min(MAX_OPEN_FILES);
    if soft >= wanted {
        return None;
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).ok()?;
    Some(Before(soft))
}

impl Before {
    /// The same command, under the former limit.
    pub(crate) fn around(self, command: &str) -> String {
        let soft = match self.0 {
            RLIM_INFINITY => "unlimited".to_owned(),
            soft => soft.to_string(),
        };
        format!("ulimit -S -n {soft}; {command}")
    }
}
