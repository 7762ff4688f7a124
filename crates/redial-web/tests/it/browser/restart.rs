use xtask::up::Up;

use super::{browser, open};

const BADGE: &str = "document.querySelector('.badge').innerText";

#[test]
fn the_page_survives_a_restart_of_the_server() -> Result<(), String> {
    let (browser, _turn) = browser();
    let mut up = Up::start(&[])?;
    let tab = browser.tab()?;
    open(&tab, &up, "/")?;
    tab.eval("window.stays = true")?;
    tab.wait_for(&format!("{BADGE}.startsWith('live')"))?;
    up.stop();
    tab.wait_for(&format!("{BADGE}.startsWith('cut off')"))?;
    up.restart()?;
    tab.wait_for(&format!("{BADGE}.startsWith('live')"))?;
    assert_eq!(tab.eval("window.stays")?, true, "the page was loaded again");
    Ok(())
}
