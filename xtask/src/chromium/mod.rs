//! Does the page work for a visitor? Only a browser knows: what it paints, what it refuses to run, what it fetches. This
//! drives Debian's Chromium over its pipe (`--remote-debugging-pipe`), which needs no port and ends with this process.

mod pipe;
mod tab;

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cargo::{cannot_start, find_program};
use crate::private::{Folder, make_folder};
use pipe::Pipe;
pub use tab::{Scheme, Tab};

const FLAGS: &[&str] = &[
    "--headless",
    "--remote-debugging-pipe",
    // Root has no other way, and the page is ours.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--mute-audio",
    "--lang=en-GB",
    "about:blank",
];

/// A private Chromium, stopped on drop or with this process.
#[derive(Debug)]
pub struct Chromium {
    child: Child,
    pipe: Arc<Pipe>,
    /// Removed on drop.
    _profile: Folder,
}

impl Chromium {
    /// Starts a browser with a new profile.
    pub fn start() -> Result<Self, String> {
        let missing = "chromium is not installed: run `cargo xtask setup`";
        let program = find_program("chromium").ok_or(missing)?;
        let profile = Folder(make_folder("chromium")?);
        let log = File::create(profile.0.join("log")).map_err(|error| error.to_string())?;
        // Chromium reads from descriptor 3 and writes to 4, which only a shell can set without unsafe code.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"]).arg(program);
        command.args(FLAGS).arg(format!("--user-data-dir={}", profile.0.display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(|error| cannot_start(&command, &error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("chromium has no pipes".to_owned());
        };
        let pipe = Pipe::new(input, output);
        let browser = Self { child, pipe, _profile: profile };
        browser.pipe.call(None, "Browser.getVersion", &json!({}))?;
        Ok(browser)
    }

    /// A tab that shares nothing with the tabs of other calls: no cookies, no storage.
    pub fn tab(&self) -> Result<Tab, String> {
        let made = self.pipe.call(None, "Target.createBrowserContext", &json!({}))?;
        self.tab_in(text(&made, "browserContextId")?)
    }

    /// Another tab of the same visitor.
    pub fn tab_beside(&self, tab: &Tab) -> Result<Tab, String> {
        self.tab_in(tab.context().to_owned())
    }

    fn tab_in(&self, context: String) -> Result<Tab, String> {
        let target = json!({ "url": "about:blank", "browserContextId": context });
        let target = text(&self.pipe.call(None, "Target.createTarget", &target)?, "targetId")?;
        let attach = json!({ "targetId": target, "flatten": true });
        let session = text(&self.pipe.call(None, "Target.attachToTarget", &attach)?, "sessionId")?;
        Tab::new(Arc::clone(&self.pipe), session, target, context)
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // It ends when its pipe does; its helpers end with it.
        self.pipe.close();
        let _ = self.child.wait();
    }
}

fn text(value: &Value, field: &str) -> Result<String, String> {
    value[field]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("chromium sent no {field}: {value}"))
}
