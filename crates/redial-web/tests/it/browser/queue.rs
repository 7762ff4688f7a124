//! Dead letters in the browser, with the store that the server uses.

use std::time::Duration;

use redial_queue::durable::{Claim, Filter, JobVerdict, NewJob, Settlement, State, Store};
use redial_queue::sqlite::SqliteStore;
use tokio::runtime::Runtime;
use xtask::chromium::{Chromium, Scheme, Tab};
use xtask::up::Up;

use super::axe::{inject, violations};
use super::browser;

/// No worker of the server works on it.
const QUEUE: &str = "orders";
const MARKUP: &str = "<img src=x onerror=alert(1)>";

/// A server whose queue has dead letters with these outcomes.
struct Letters {
    up: Up,
    store: SqliteStore,
    runtime: Runtime,
}

impl Letters {
    fn new(outcomes: &[(&str, usize)]) -> Result<Self, String> {
        let up = Up::start(&[])?;
        let runtime = Runtime::new().unwrap();
        let store = SqliteStore::open(up.data().join("queue.db")).unwrap();
        let letters = Self { up, store, runtime };
        for (outcome, count) in outcomes {
            letters.add(outcome, *count);
        }
        Ok(letters)
    }

    fn add(&self, outcome: &str, count: usize) {
        let jobs =
            (0..count).map(|n| NewJob::new(format!("{{\"order\": {n}}} {MARKUP}"))).collect();
        let claim = Claim { queue: QUEUE.to_owned(), most: count, lease: Duration::from_secs(600) };
        self.runtime.block_on(async {
            self.store.enqueue(QUEUE, jobs).await.unwrap();
            let claimed = self.store.claim(&claim).await.unwrap().jobs;
            let settle = |job: &redial_queue::durable::Claimed| Settlement {
                lease: job.lease,
                verdict: JobVerdict::Dead { reason: "attempts".to_owned() },
                took: Duration::from_millis(1200),
                outcome: outcome.to_owned(),
            };
            self.store.settle(claimed.iter().map(settle).collect()).await.unwrap();
        });
    }

    fn count(&self, state: State) -> u64 {
        let filter =
            Filter { queue: Some(QUEUE.to_owned()), state: Some(state), ..Filter::default() };
        self.runtime.block_on(self.store.count(&filter)).unwrap()
    }

    fn open(&self, browser: &Chromium) -> Result<Tab, String> {
        let tab = browser.tab()?;
        tab.open(&format!("{}&queue={QUEUE}", self.up.page("/queue")))?;
        tab.wait_for_text("attempts")?;
        Ok(tab)
    }
}

#[test]
fn a_redrive_empties_the_dead_letters() -> Result<(), String> {
    let (browser, _turn) = browser();
    let letters = Letters::new(&[("503 from the shop", 12), ("timed out", 3)])?;
    let tab = letters.open(browser)?;
    tab.click("tr:has(td.error) button", "Redrive…")?;
    tab.wait_for_text("12 dead letters will start again")?;
    tab.click("dialog button", "Redrive 12 dead letters")?;
    tab.wait_for_text("12 redriven")?;
    // The jobs still show it: their history is kept.
    tab.wait_for(
        "!document.querySelector('section[aria-labelledby=dead]').innerText.includes('503')",
    )?;
    assert_eq!((letters.count(State::Dead), letters.count(State::Waiting)), (3, 12));
    tab.click("button", "Redrive all…")?;
    tab.click("dialog button", "Redrive 3 dead letters")?;
    tab.wait_for_text("No dead letters.")?;
    assert_eq!((letters.count(State::Dead), letters.count(State::Waiting)), (0, 15));
    assert_eq!(tab.complaints(), [""; 0]);
    Ok(())
}

#[test]
fn a_purge_takes_what_was_confirmed_or_nothing() -> Result<(), String> {
    let (browser, _turn) = browser();
    let letters = Letters::new(&[("503 from the shop", 4)])?;
    let tab = letters.open(browser)?;
    tab.click("button", "Purge all…")?;
    tab.wait_for_text("4 dead letters will be removed")?;
    letters.add("another one", 1);
    tab.click("dialog button", "Purge 4 dead letters")?;
    tab.wait_for_text("5 dead letters match now, not 4: look again")?;
    assert_eq!(letters.count(State::Dead), 5);
    tab.click("dialog button", "Purge 5 dead letters")?;
    tab.wait_for_text("5 purged")?;
    assert_eq!(letters.count(State::Dead), 0);
    Ok(())
}

#[test]
fn a_job_is_shown_edited_and_never_becomes_markup() -> Result<(), String> {
    let (browser, _turn) = browser();
    let letters = Letters::new(&[(MARKUP, 1)])?;
    let tab = letters.open(browser)?;
    tab.scheme(Scheme::Dark)?;
    tab.click("button.id", "")?;
    tab.wait_for_text("Attempts over time")?;
    tab.wait_for_text(MARKUP)?;
    assert_eq!(tab.eval("document.images.length")?, 0);
    inject(&tab)?;
    assert_eq!(violations(&tab)?, [""; 0]);
    tab.click("dialog button", "Edit")?;
    tab.fill("textarea", "", "{\"order\": 99}")?;
    assert_eq!(violations(&tab)?, [""; 0]);
    tab.click("dialog button", "Save")?;
    tab.wait_for_text("is changed")?;
    let job = letters.runtime.block_on(letters.store.list(&Filter::default())).unwrap();
    let job = job.iter().find(|job| job.queue == QUEUE).unwrap();
    assert_eq!(job.payload, b"{\"order\": 99}");
    assert_eq!(tab.complaints(), [""; 0]);
    Ok(())
}

#[test]
fn a_failed_action_is_a_notice() -> Result<(), String> {
    let (browser, _turn) = browser();
    let mut letters = Letters::new(&[("503 from the shop", 2)])?;
    let tab = letters.open(browser)?;
    tab.click("button", "Redrive all…")?;
    tab.wait_for_text("2 dead letters will start again")?;
    letters.up.stop();
    tab.click("dialog button", "Redrive 2 dead letters")?;
    tab.wait_for(
        "document.querySelector('.notices .error')?.innerText.includes('does not answer')",
    )?;
    tab.press("Escape")?;
    // What was known is still there, and marked.
    tab.wait_for_text("503 from the shop")?;
    tab.wait_for_text("not up to date")?;
    letters.up.restart()?;
    tab.wait_for("!document.body.innerText.includes('not up to date')")
}
