//! The newcomer's two minutes: a blip that becomes a storm on one side only.

use serde_json::Value;
use xtask::chromium::Tab;
use xtask::up::Up;

use super::{browser, open};

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
    tab.wait_for("document.querySelectorAll('.figures dd.big').length === 2")?;
    tab.click("button", "blip")?;
    tab.wait_for("parseFloat(document.querySelector('.figures .naive').innerText) >= 2")?;
    let (naive, redial) = multipliers(&tab)?;
    assert!(naive >= 2.0 && redial < 1.5, "naive {naive}, Redial {redial}");
    tab.wait_for("/storm/i.test(document.querySelector('h1').innerText)")?;
    // The trouble is over, and the storm is not.
    tab.wait_for("document.querySelector('.now .tag.good')")?;
    let (naive, redial) = multipliers(&tab)?;
    assert!(naive > redial, "naive {naive}, Redial {redial}");
    assert_eq!(tab.complaints(), [""; 0]);
    Ok(())
}
