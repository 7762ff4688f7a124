//! The tour of the playground: each step is a setting, and a setting is an address.

use serde_json::Value;
use xtask::chromium::{Chromium, Tab};
use xtask::up::Up;

use super::playground::{complaints, multipliers};
use super::{browser, open};

/// What a visitor has set: the step of the tour, two sliders, and the policies.
fn setting(tab: &Tab) -> Result<Value, String> {
    tab.eval(
        "(() => { \
           const value = (label) => document.querySelector(`[aria-label=\"${label}, typed\"]`)?.value ?? null; \
           const steps = [...document.querySelectorAll('.tour li')]; \
           return [ \
             steps.findIndex((it) => it.querySelector('[aria-pressed=true]')), value('Outage'), value('Retry budget'), \
             value('Traffic'), value('Clients'), [...document.querySelectorAll('.chosen li')].map((it) => it.firstChild.data.trim()).join() \
           ]; })()",
    )
}

/// The same address in a new tab.
fn again(browser: &Chromium, tab: &Tab, up: &Up) -> Result<Tab, String> {
    let address = tab.eval("location.pathname + location.search")?;
    let again = browser.tab_beside(tab)?;
    again.open(&format!("{}{}", up.origin(), address.as_str().unwrap_or_default()))?;
    Ok(again)
}

#[test]
fn each_step_sets_the_sliders_and_changes_the_curve() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&["--page-only"])?;
    let tab = browser.tab()?;
    tab.size(1280, 1400)?;
    open(&tab, &up, "/playground")?;
    let first = multipliers(&tab)?;
    let mut seen = vec![first.clone()];
    for (at, outage, budget, traffic) in [
        (1, "300 ms", "0 %", "1 M/s"),
        (2, "300 ms", "10 %", "1 M/s"),
        (3, "1 s", "0 %", "100 M/s"),
        (0, "1 s", "0 %", "1 M/s"),
    ] {
        tab.click(&format!(".tour li:nth-child({}) button", at + 1), "")?;
        let here = format!(
            "document.querySelectorAll('.tour li')[{at}].querySelector('[aria-pressed=true]')"
        );
        tab.wait_for(&here)?;
        let shown = multipliers(&tab)?;
        let set = setting(&tab)?;
        assert_eq!(
            (&set[1], &set[2], &set[3]),
            (&Value::from(outage), &Value::from(budget), &Value::from(traffic)),
            "step {at}"
        );
        let is_storm = shown[0] > 5.0;
        assert_eq!(is_storm, at != 2, "step {at}: {shown:?}");
        assert!(shown[1] < 1.2, "Redial's curve stays flat in step {at}: {shown:?}");
        let restored = again(browser, &tab, &up)?;
        assert_eq!(multipliers(&restored)?, shown, "step {at} by its address");
        assert_eq!(setting(&restored)?, set, "step {at} by its address");
        seen.push(shown);
    }
    assert_eq!(seen.first(), seen.last(), "the first step is how the page opens");
    assert_ne!(seen[1], seen[2]);
    assert_eq!(complaints(&tab), [""; 0]);
    Ok(())
}

#[test]
fn the_address_restores_story_sliders_and_policies() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&["--page-only"])?;
    let tab = browser.tab()?;
    tab.size(1280, 1400)?;
    let search =
        "story=waves&clients=25000000&jitter=decorrelated&seed=7&policy=none&policy=standard";
    tab.open(&format!("{}&{search}", up.page("/playground")))?;
    let shown = multipliers(&tab)?;
    tab.wait_for("document.querySelector('h1').innerText === 'Retry waves after a blip'")?;
    let set = setting(&tab)?;
    assert_eq!((&set[4], &set[5]), (&Value::from("25 M"), &Value::from("none,standard")));
    let pressed = "document.querySelector('.segments [aria-pressed=true]').innerText";
    assert_eq!(tab.eval(pressed)?, "decorrelated");
    // 25 million calls in flight do not fit into memory, and their last wait cannot be counted.
    tab.wait_for("/1:[0-9]+ model/.test(document.querySelector('.caption').innerText)")?;
    let restored = again(browser, &tab, &up)?;
    assert_eq!(multipliers(&restored)?, shown);
    assert_eq!(setting(&restored)?, set);
    assert_eq!(restored.eval(pressed)?, "decorrelated");
    assert_eq!(complaints(&tab), [""; 0]);
    Ok(())
}
