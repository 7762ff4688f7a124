use std::process::{Child, Command, Stdio};

use crate::kit::free_port;

/// A Redis that can be killed and started again. Killed on drop.
pub(super) struct Redis {
    pub(super) port: u16,
    child: Option<Child>,
}

impl Redis {
    pub(super) fn new() -> Self {
        let mut redis = Self { port: free_port(), child: None };
        redis.start();
        redis
    }

    /// Does not wait until it answers.
    pub(super) fn start(&mut self) {
        if self.child.is_none() {
            let mut command = Command::new("redis-server");
            command.args(["--bind", "127.0.0.1", "--port", &self.port.to_string()]);
            command.args(["--save", "", "--appendonly", "no"]);
            let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
            let started = quiet.spawn();
            self.child = Some(started.expect("redis-server is needed: run `cargo xtask setup`"));
        }
    }

    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
