//! The newcomer's two minutes: a blip that becomes a storm on one side only.

use serde_json::Value;
use xtask::chromium::Tab;
use xtask::up::Up;

use super::{browser, open};

/// The level of an upstream in the table.
fn level(of: &str) -> String {
    format!(
        "[...document.querySelectorAll('section tbody tr')]\
         .find(row => row.querySelector('th')?.firstChild.data === '{of}')?.querySelector('.tag')?.innerText"
    )
}

/// The two big numbers: the naive loop's multiplier, and Redial's.
fn multipliers(tab: &Tab) -> Result<(f64, f64), String> {
    let read =
        "[...document.querySelectorAll('.figures dd.big')].map((it) => parseFloat(it.innerText))";
    let both = tab.eval(read)?;
    let number = |at: usize| both.get(at).and_then(Value::as_f64).ok_or(format!("{both}"));
    Ok((number(0)?, number(1)?))
}

#[test]
fn the_blip_button_shows_a_storm_on_the_naive_side_only() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&[])?;
    let tab = browser.tab()?;
    open(&tab, &up, "/")?;
    tab.wait_for(&format!("{} === 'calm'", level("demo")))?;
    tab.wait_for(&format!("{} === 'calm'", level("naive")))?;
    tab.click("button", "blip")?;
    tab.wait_for(&format!("['storm', 'critical'].includes({})", level("naive")))?;
    // Ten retries without a success are the most that the sidecar's budget allows, whatever the speed of the machine.
    assert_eq!(tab.eval(&level("demo"))?, "calm");
    let (naive, redial) = multipliers(&tab)?;
    assert!(naive >= 2.0 && redial < 1.5, "naive {naive}, Redial {redial}");
    let verdict = tab.eval("document.querySelector('h1').innerText")?;
    let verdict = verdict.as_str().unwrap_or_default();
    assert!(verdict.contains("torm: naive") && verdict.contains("since"), "{verdict}");
    // The trigger is gone, and the storm stays until its callers are restarted.
    tab.wait_for(
        "document.querySelector('[aria-label=\"Break both backends\"] .tag.good')?.innerText === 'healthy'",
    )?;
    tab.wait_for_text("that is a retry storm")?;
    assert_ne!(tab.eval(&level("naive"))?, "calm");
    tab.click("button", "repair")?;
    tab.wait_for(&format!("{} === 'calm'", level("naive")))?;
    assert_eq!(tab.complaints(), Vec::<String>::new());
    Ok(())
}
