//! What a visitor sees: the real program, opened in Chromium. Tests wait for conditions, never for a time.

mod axe;
mod blip;
mod paint;
mod playground;
mod policies;
mod queue;
mod restart;
mod tabs;
mod tour;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use xtask::chromium::{Chromium, Tab};
use xtask::up::Up;

/// The pages of a server with everything.
const PAGES: [(&str, &str); 5] = [
    ("/", "Now"),
    ("/playground", "Playground"),
    ("/exercise", "Exercise"),
    ("/queue", "Queue"),
    ("/policies", "Policies"),
];

/// One browser for all tests, and one test at a time: a browser uses all processors.
fn browser() -> (&'static Chromium, MutexGuard<'static, ()>) {
    static BROWSER: OnceLock<Chromium> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    (BROWSER.get_or_init(|| Chromium::start().unwrap()), turn)
}

/// Opens a page and waits until it has its name in the title and a heading.
fn open(tab: &Tab, up: &Up, path: &str) -> Result<(), String> {
    tab.open(&up.page(path))?;
    let name = PAGES.iter().find(|(page, _)| *page == path).unwrap().1;
    tab.wait_for(&format!("document.title === '{name} · Redial' && document.querySelector('h1')"))
}
