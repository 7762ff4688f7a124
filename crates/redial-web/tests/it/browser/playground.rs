//! Sliders, and a policy of one's own.

use xtask::up::Up;

use super::browser;

const FIGURES: &str =
    "[...document.querySelectorAll('.figures dd')].map((it) => it.innerText).join()";

#[test]
fn a_slider_changes_the_curve() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&["--page-only"])?;
    let tab = browser.tab()?;
    tab.open(&up.page("/playground"))?;
    tab.wait_for("document.querySelectorAll('.side .uplot').length >= 2")?;
    tab.wait_for("document.querySelector('.sentence').getAttribute('aria-busy') === 'false'")?;
    let before = tab.eval(FIGURES)?;
    let pixels = "document.querySelector('.side canvas').toDataURL()";
    let curve = tab.eval(pixels)?;
    let slider = "input[type=range]";
    tab.focus(slider, "")?;
    (0..40).try_for_each(|_| tab.press("ArrowLeft"))?;
    tab.wait_for(&format!("{FIGURES} !== {before}"))?;
    tab.wait_for(&format!("{pixels} !== {curve}"))?;
    tab.wait_for("location.search.length > 1")?;
    assert_eq!(tab.complaints(), [""; 0]);
    assert_eq!(tab.requests_outside(up.origin()), [""; 0]);
    Ok(())
}

#[test]
fn a_bad_policy_shows_its_finding() -> Result<(), String> {
    let (browser, _turn) = browser();
    let up = Up::start(&["--page-only"])?;
    let tab = browser.tab()?;
    tab.open(&up.page("/playground"))?;
    let choose = "const it = document.querySelector('select[aria-label=\"Add a policy\"]'); \
                  it.value = 'own'; it.dispatchEvent(new Event('change', { bubbles: true }))";
    tab.wait_for("document.querySelector('option[value=own]')")?;
    tab.eval(&format!("(() => {{ {choose} }})()"))?;
    tab.wait_for("document.querySelector('textarea')")?;
    let remarks = "document.querySelector('.remarks').innerText";
    tab.fill("textarea", "", "attempts = 4\nbackoff = { jitter = \"none\" }\nbudget = \"none\"\n")?;
    tab.wait_for(&format!("{remarks}.includes('budget')"))?;
    tab.fill("textarea", "", "attempts = 0\n")?;
    tab.wait_for(&format!("{remarks}.includes('attempts')"))?;
    tab.wait_for("document.querySelector('textarea').getAttribute('aria-invalid') === 'true'")?;
    assert_eq!(tab.complaints(), [""; 0]);
    Ok(())
}
