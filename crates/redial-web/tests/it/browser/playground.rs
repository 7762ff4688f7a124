//! The playground in a browser: it opens on the collapse, follows its sliders, and shows what a review finds.

use serde_json::Value;
use xtask::chromium::Tab;
use xtask::up::Up;

use super::axe::{inject, violations};
use super::{browser, open};

/// Full quality is drawn when nothing is left to wait for.
const AT_REST: &str = "!document.body.innerText.includes('drawing…') && document.querySelectorAll('.side .big').length >= 6";
const MULTIPLIERS: &str = "[...document.querySelectorAll('.side dd.big')].filter((_, i) => i % 3 === 0).map((it) => parseFloat(it.innerText))";

pub(super) fn multipliers(tab: &Tab) -> Result<Vec<f64>, String> {
    tab.wait_for(AT_REST)?;
    let all = tab.eval(MULTIPLIERS)?;
    Ok(all.as_array().into_iter().flatten().filter_map(Value::as_f64).collect())
}

/// Without those about the live stream, which a server with only the page does not have.
pub(super) fn complaints(tab: &Tab) -> Vec<String> {
    tab.complaints().into_iter().filter(|it| !it.contains("/api/live")).collect()
}

#[test]
fn it_opens_on_the_collapse_and_a_slider_changes_the_curve() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&["--page-only"])?;
    let tab = browser.tab()?;
    tab.size(1280, 1400)?;
    open(&tab, &up, "/playground")?;
    let [naive, ours] = multipliers(&tab)?[..] else { return Err("two policies".to_owned()) };
    assert!(naive > 5.0 && ours < 1.1, "{naive} {ours}");
    tab.wait_for_text("collapsed: never recovers")?;
    tab.wait_for_text("does not recover: at the end 0 % of the calls succeed")?;

    tab.focus("input[type=range]", "Retry budget")?;
    for _ in 0..20 {
        tab.press("ArrowRight")?;
    }
    tab.wait_for("!document.body.innerText.includes('collapsed: never recovers')")?;
    let [naive, _] = multipliers(&tab)?[..] else { return Err("two policies".to_owned()) };
    assert!(naive < 1.5, "{naive}");
    tab.wait_for("new URLSearchParams(location.search).has('budget')")?;
    tab.wait_for_text("--set 'policy.loop.budget={ window = { ratio = 0.")?;
    let measured = tab.eval("performance.getEntriesByName('slider to painted').length")?;
    assert!(measured.as_u64() > Some(0), "the time until it was painted is measured");

    // The address is the whole state.
    let address = tab.eval("location.pathname + location.search")?;
    let again = browser.tab_beside(&tab)?;
    again.open(&format!("{}{}", up.origin(), address.as_str().unwrap_or_default()))?;
    let [same, _] = multipliers(&again)?[..] else { return Err("two policies".to_owned()) };
    assert_eq!(same, naive);
    assert_eq!(complaints(&tab), [""; 0]);
    Ok(())
}

#[test]
fn a_bad_policy_shows_its_finding_and_a_click_goes_to_its_line() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&["--page-only"])?;
    let tab = browser.tab()?;
    tab.size(1280, 1400)?;
    open(&tab, &up, "/playground")?;
    multipliers(&tab)?;
    tab.eval(
        "const add = document.querySelector('select[aria-label=\"Add a policy\"]'); add.value = 'own'; \
         add.dispatchEvent(new Event('change', { bubbles: true })); 0",
    )?;
    tab.wait_for_text("no-jitter")?;
    tab.wait_for_text("no-budget")?;
    tab.click(".remarks button", "line 3")?;
    let selected = "(() => { const area = document.querySelector('.editor textarea'); \
                    return area.value.slice(area.selectionStart, area.selectionEnd); })()";
    assert_eq!(tab.eval(selected)?, "\"none\"");
    tab.fill(".editor textarea", "", "attempts = 0")?;
    tab.wait_for_text("cannot be simulated")?;
    assert_eq!(complaints(&tab), [""; 0]);
    Ok(())
}

#[test]
fn a_cell_of_the_map_sets_the_sliders() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&["--page-only"])?;
    let tab = browser.tab()?;
    tab.size(1280, 1400)?;
    // Little traffic is quick to simulate.
    tab.open(&format!("{}&traffic=1000&clients=10", up.page("/playground")))?;
    tab.click("button", "Draw the map of collapse")?;
    let cells =
        "[...document.querySelectorAll('.maps table')[0]?.querySelectorAll('td button') ?? []]";
    tab.wait_for(&format!("{cells}.length === 48"))?;
    // The fourth row is the outage of a second, and the sixth column a load of 70%.
    tab.wait_for(&format!("{cells}.findIndex((it) => it.ariaCurrent) === 3 * 8 + 5"))?;
    let typed =
        |label: &str| format!("document.querySelector('[aria-label=\"{label}, typed\"]').value");

    let is_at = |load: u32, outage: u32| {
        format!(
            "{} === '{load} %' && {} === '{outage} ms' && location.search.includes('load={load}') \
             && location.search.includes('outage={outage}')",
            typed("Load"),
            typed("Outage")
        )
    };
    tab.focus(".maps td [aria-current]", "")?;
    for key in ["ArrowUp", "End"] {
        tab.press(key)?;
    }
    let reading = "document.querySelector('.reading').innerText";
    tab.wait_for(&format!(
        "{reading}.startsWith('loop. Load 90%, trouble for 500 ms: 100% of the runs collapse')"
    ))?;
    tab.press("Enter")?;
    tab.wait_for(&is_at(90, 500))?;
    tab.wait_for_text("collapsed: never recovers")?;
    tab.click(".maps td button", "")?;
    tab.wait_for(&is_at(20, 100))?;
    tab.wait_for("!document.body.innerText.includes('collapsed: never recovers')")?;
    inject(&tab)?;
    assert_eq!(violations(&tab)?, [""; 0]);
    // The map has all loads and outages, so it is still that of the setting.
    assert_eq!(
        tab.eval("document.querySelector('[aria-label=\"Longer runs\"] .tag.warn')")?,
        Value::Null
    );
    assert_eq!(complaints(&tab), [""; 0]);
    Ok(())
}

#[test]
fn the_exercise_scores_what_is_written() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&["--page-only"])?;
    let tab = browser.tab()?;
    tab.size(1280, 2000)?;
    open(&tab, &up, "/exercise")?;
    tab.wait_for_text("0 of 5: not yet")?;
    tab.click("label.check", "At least 45 seconds")?;
    tab.wait_for_text("1 of 4 right")?;
    tab.fill(
        ".editor textarea",
        "",
        "attempts = 4\nrequire_key = true\nretry_on = [429, 500, 503]\n",
    )?;
    tab.wait_for_text("5 of 5: excellent")?;
    assert_eq!(complaints(&tab), [""; 0]);
    Ok(())
}
