use xtask::up::Up;

use super::{browser, open};

/// The level of an upstream in the table.
fn level(of: &str) -> String {
    format!(
        "[...document.querySelectorAll('section tbody tr')]\
         .find(row => row.querySelector('th')?.innerText === '{of}')?.querySelector('.tag')?.innerText"
    )
}

#[test]
fn the_blip_button_shows_a_storm_on_the_naive_side_only() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&[])?;
    let tab = browser.tab()?;
    open(&tab, &up, "/")?;
    tab.wait_for(&format!("{} === 'calm'", level("demo")))?;
    tab.click("button", "blip")?;
    tab.wait_for(&format!("['storm', 'critical'].includes({})", level("naive")))?;
    // Ten retries without a success are the most that the sidecar's budget allows, whatever the speed of the machine.
    assert_eq!(tab.eval(&level("demo"))?, "calm");
    let verdict = tab.eval("document.querySelector('h1').innerText")?;
    let verdict = verdict.as_str().unwrap_or_default();
    assert!(verdict.contains("torm: naive") && verdict.contains("since"), "{verdict}");
    // The trigger is gone, and the storm stays until its callers are restarted.
    tab.wait_for_text("that is a retry storm")?;
    tab.click("button", "repair")?;
    tab.wait_for("!document.querySelector('.tag.bad')?.innerText.includes('blip')")?;
    assert_eq!(tab.complaints(), Vec::<String>::new());
    Ok(())
}
