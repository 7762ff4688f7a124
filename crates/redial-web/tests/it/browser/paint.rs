//! The first paint, and moving between pages.

use xtask::up::Up;

use super::{PAGES, browser, open};

#[test]
fn first_paint_is_without_complaint_and_without_outside_request() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&[])?;
    for (path, _) in PAGES {
        let tab = browser.tab()?;
        open(&tab, &up, path)?;
        // A frame was painted, and its effects have run.
        tab.eval("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")?;
        assert_eq!(tab.complaints(), [""; 0], "{path}");
        assert_eq!(tab.requests_outside(up.origin()), [""; 0], "{path}");
        let address = tab.eval("location.href")?;
        assert!(!address.as_str().unwrap().contains("token"), "{address}");
    }
    Ok(())
}

#[test]
fn pages_change_without_a_reload() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&[])?;
    let tab = browser.tab()?;
    open(&tab, &up, "/")?;
    tab.eval("window.stays = true")?;
    for (path, name) in PAGES.into_iter().rev() {
        tab.click("nav a", name)?;
        tab.wait_for(&format!(
            "location.pathname === '{path}' && document.title === '{name} · Redial' && window.stays"
        ))?;
    }
    tab.eval("history.back()")?;
    tab.wait_for("document.title === 'Playground · Redial' && window.stays")
}

#[test]
fn without_traffic_the_playground_is_the_first_page() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&["--page-only"])?;
    let tab = browser.tab()?;
    tab.open(up.url())?;
    tab.wait_for("document.title === 'Playground · Redial'")
}

#[test]
fn the_theme_is_kept() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&["--page-only"])?;
    let tab = browser.tab()?;
    tab.open(&up.page("/playground"))?;
    let next = "document.querySelector('.theme').getAttribute('aria-label')";
    for theme in ["system", "dark", "light", "system", "dark"] {
        tab.wait_for(&format!("{next} === 'Theme: {theme}. Change it.'"))?;
        if theme != "dark" {
            tab.click(".theme", "")?;
            continue;
        }
        let scheme = "getComputedStyle(document.documentElement).colorScheme";
        assert_eq!(tab.eval(scheme)?, "dark");
        tab.open(&up.page("/playground"))?;
        tab.wait_for(&format!("{next} === 'Theme: dark. Change it.' && {scheme} === 'dark'"))?;
        tab.click(".theme", "")?;
    }
    Ok(())
}
