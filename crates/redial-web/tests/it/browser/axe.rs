//! Accessible by test: axe finds nothing, on any page, in both themes, from a phone to a wall.

use std::path::Path;

use serde_json::Value;
use xtask::chromium::{Scheme, Tab};
use xtask::up::Up;

use super::{PAGES, browser, open};

const SIZES: [(u32, u32); 3] = [(400, 800), (1280, 900), (1920, 1080)];

/// What makes the page wider than the window.
const TOO_WIDE: &str = "document.documentElement.scrollWidth <= innerWidth ? '' : [...document.querySelectorAll('body *')] \
     .filter((it) => it.getBoundingClientRect().right > innerWidth).map((it) => it.outerHTML.slice(0, 60)).join(' ')";

#[test]
fn axe_finds_nothing_on_any_page() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&[])?;
    for (path, _) in PAGES {
        let tab = browser.tab()?;
        open(&tab, &up, path)?;
        inject(&tab)?;
        for (width, height) in SIZES {
            tab.size(width, height)?;
            for scheme in [Scheme::Light, Scheme::Dark] {
                tab.scheme(scheme)?;
                assert_eq!(violations(&tab)?, [""; 0], "{path} at {width} px, {scheme:?}");
            }
            assert_eq!(tab.eval(TOO_WIDE)?, Value::from(""), "{path} at {width} px");
        }
    }
    Ok(())
}

pub(super) fn inject(tab: &Tab) -> Result<(), String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("app/node_modules/axe-core/axe.min.js");
    let missing = |error| format!("{}: {error}; `cargo xtask test` installs it", file.display());
    let source = std::fs::read_to_string(&file).map_err(missing)?;
    tab.eval(&format!("{source}\n;0")).map(drop)
}

pub(super) fn violations(tab: &Tab) -> Result<Vec<String>, String> {
    let found = tab.eval(
        "new Promise((painted) => requestAnimationFrame(() => setTimeout(painted))) \
           .then(() => axe.run(document, { resultTypes: ['violations'] })) \
           .then(({ violations }) => violations.map(({ id, nodes }) => \
             `${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join('; ')}`))",
    )?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(found.as_array().into_iter().flatten().map(text).collect())
}
