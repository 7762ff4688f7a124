//! A picture in the README that shows another version of the page is worse than none: this remakes it, from the real program
//! during a real storm. With a folder, it also takes every page at every size in both themes, to be looked at.

use std::fs;
use std::path::Path;

use crate::cargo::{cargo, root, run as succeed};
use crate::chromium::{Chromium, Scheme, Tab};
use crate::setup::{self, Use};
use crate::up::Up;

const PICTURE: &str = "docs/redial-up.png";
/// More would make a clone of the repository slow.
const MOST_BYTES: u64 = 150_000;
const PAGES: [(&str, &str); 5] = [
    ("/", "now"),
    ("/playground", "playground"),
    ("/exercise", "exercise"),
    ("/queue", "queue"),
    ("/policies", "policies"),
];
const SIZES: [(u32, u32); 3] = [(400, 800), (1280, 900), (1920, 1080)];

/// Remakes the README's picture, or takes all pictures into a folder.
pub fn run(folder: Option<&Path>) -> Result<(), String> {
    setup::try_for(Use::Test);
    if std::env::var_os(crate::up::VARIABLE).is_none() {
        succeed(&mut cargo(["build", "--package", "redial-cli"]), "the command is pictured")?;
    }
    let up = Up::start(&[])?;
    let browser = Chromium::start()?;
    let tab = browser.tab()?;
    match folder {
        None => picture(&tab, &up),
        Some(folder) => all(&tab, &up, folder),
    }
}

fn picture(tab: &Tab, up: &Up) -> Result<(), String> {
    tab.size(1280, 820)?;
    tab.scheme(Scheme::Light)?;
    storm(tab, up)?;
    let path = root().join(PICTURE);
    tab.screenshot(&path)?;
    let bytes = fs::metadata(&path).map_err(|error| error.to_string())?.len();
    if bytes > MOST_BYTES {
        return Err(format!("{PICTURE} has {bytes} bytes, at most {MOST_BYTES} are allowed"));
    }
    println!("{PICTURE}: {bytes} bytes");
    Ok(())
}

/// Breaks both backends of the demo, and waits until one side storms and the trouble itself is over.
fn storm(tab: &Tab, up: &Up) -> Result<(), String> {
    tab.open(up.url())?;
    tab.wait_for("document.querySelectorAll('.figures dd.big').length === 2")?;
    // Calm before the storm, so that the difference shows.
    tab.wait_for("document.querySelector('.plot').getAttribute('aria-valuemax') >= 20")?;
    tab.click("button", "blip")?;
    tab.wait_for("parseFloat(document.querySelector('.figures .naive').innerText) >= 2.5")?;
    tab.wait_for("document.querySelector('.now .tag.good')")
}

fn all(tab: &Tab, up: &Up, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    storm(tab, up)?;
    for (path, name) in PAGES {
        tab.size(1280, 900)?;
        tab.open(&up.page(path))?;
        tab.wait_for(
            "document.querySelector('h1') && !document.body.innerText.includes('Simulating…')",
        )?;
        for (width, height) in SIZES {
            tab.size(width, height)?;
            for (scheme, word) in [(Scheme::Light, "light"), (Scheme::Dark, "dark")] {
                tab.scheme(scheme)?;
                tab.eval(
                    "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))",
                )?;
                let file = format!("{name}-{width}-{word}.png");
                tab.screenshot(&folder.join(&file))?;
                println!("{file}");
            }
        }
    }
    Ok(())
}
