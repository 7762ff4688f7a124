use xtask::up::Up;

use super::{browser, open};

/// A browser keeps six connections to a host. Each tab needs one for its live samples, so a hidden tab has to give it back.
#[test]
fn seven_tabs_are_live_at_once() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&[])?;
    let first = browser.tab()?;
    open(&first, &up, "/")?;
    let mut tabs = vec![first];
    for _ in 1..7 {
        let tab = browser.tab_beside(&tabs[0])?;
        // The visitor looks at one tab at a time.
        tabs.iter().try_for_each(|tab| hide(tab, true))?;
        open(&tab, &up, "/")?;
        tabs.push(tab);
    }
    let live = "document.querySelector('.badge').innerText.startsWith('live')";
    for (at, tab) in tabs.iter().enumerate() {
        for (other, hidden) in tabs.iter().enumerate() {
            hide(hidden, other != at)?;
        }
        tab.wait_for(live)?;
        assert_eq!(tab.eval("fetch('/api/hello').then((hello) => hello.status)")?, 200);
    }
    Ok(())
}

/// Headless tabs are always visible, so the page is told what a browser with windows would tell it.
fn hide(tab: &xtask::chromium::Tab, hidden: bool) -> Result<(), String> {
    let hide = format!(
        "Object.defineProperty(document, 'hidden', {{ configurable: true, value: {hidden} }}), \
         document.dispatchEvent(new Event('visibilitychange'))"
    );
    tab.eval(&hide).map(drop)
}
