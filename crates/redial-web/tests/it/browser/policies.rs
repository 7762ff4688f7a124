//! The policies of a real file: what is configured where, what a review finds, and what a change would do.

use std::path::PathBuf;

use serde_json::Value;
use xtask::up::Up;

use super::axe::{inject, violations};
use super::{browser, open};

/// Nothing listens at the upstreams: they are not called.
const FILE: &str = r#"
[setting]
clients = 50
calls = "2000/s"
capacity = "2500/s"

[policy.hasty]
attempts = 10
attempt_timeout = "150ms"
backoff = { base = "100ms", cap = "100ms", growth = "constant" }
budget = "none"
hedge = "none"
stall = "none"

[upstream.shop]
listen = "127.0.0.1:0"
to = "http://127.0.0.1:9"
policy = "hasty"

[upstream.stock]
listen = "127.0.0.1:0"
to = "http://127.0.0.1:9"

[[route]]
upstream = "stock"
methods = ["GET"]
path = "/orders/*"
policy = "hasty"
"#;

/// A file that is removed on drop.
struct PolicyFile(PathBuf);

impl PolicyFile {
    fn new(text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redial-{}.toml", redial::Key::fresh()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for PolicyFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The text of a cell, by the policy of its row and the name of its column.
fn cell(policy: &str, column: &str) -> String {
    format!(
        "[...document.querySelectorAll('table.rows tbody tr')]\
         .find((row) => row.querySelector('th').innerText === '{policy}')\
         ?.querySelector('td[data-label=\"{column}\"]')?.innerText"
    )
}

#[test]
fn a_file_is_shown_with_its_users_findings_and_what_a_change_would_do() -> Result<(), String> {
    let (browser, _turn) = browser();
    let file = PolicyFile::new(FILE);
    let up = Up::start(&[file.0.to_str().unwrap()])?;
    let tab = browser.tab()?;
    tab.size(1280, 1400)?;
    open(&tab, &up, "/policies")?;
    tab.wait_for_text("The policies of the sidecar's file")?;
    tab.wait_for(&cell("hasty", "Used by"))?;
    let users = tab.eval(&cell("hasty", "Used by"))?;
    assert_eq!(users, "upstream shop\nGET stock /orders/*");
    assert_eq!(tab.eval(&cell("standard", "Used by"))?, "upstream stock");
    let findings = tab.eval(&cell("hasty", "Findings"))?;
    for rule in ["too-many-attempts", "no-budget"] {
        assert!(findings.as_str().unwrap().contains(rule), "{findings}");
    }
    assert_eq!(tab.eval(&cell("standard", "Findings"))?, "none");

    tab.click("tr:has(th) button", "Change")?;
    tab.wait_for_text("before sends")?;
    tab.wait_for_text("2 k calls/s, 50 clients, a load of 80%")?;
    let collapsed = "[...document.querySelectorAll('.change .row .num')]\
                     .map((it) => it.innerText.includes('collapsed'))";
    assert_eq!(tab.eval(collapsed)?, Value::from(vec![true, true]), "nothing is changed yet");
    tab.fill(".editor textarea", "", "attempts = 4\nattempt_timeout = \"150ms\"\n")?;
    tab.wait_for(&format!("String({collapsed}) === 'true,false'"))?;
    tab.wait_for_text("after sends 1.")?;
    // A change that is worse is reviewed as well.
    tab.fill(".editor textarea", "", "attempts = 4\nbackoff = { jitter = \"none\" }\n")?;
    tab.wait_for("document.querySelector('.remarks')?.innerText.includes('no-jitter')")?;
    inject(&tab)?;
    assert_eq!(violations(&tab)?, [""; 0]);
    assert_eq!(tab.complaints(), [""; 0]);
    Ok(())
}
