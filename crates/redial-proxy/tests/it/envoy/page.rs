//! The page with the results. `REDIAL_BLESS=1` writes it again.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use super::Compared;
use super::cells::{BEHAVIOURS, Behaviour, CONDITIONS};

/// Cells that differ, and why.
struct Difference {
    is_it: fn(&Compared) -> bool,
    why: &'static str,
}

const DIFFERENCES: [Difference; 2] = [
    Difference {
        is_it: |it| {
            let is_cell = it.cell.condition == "envoy-ratelimited"
                && *it.cell.behaviour == Behaviour::Status(429);
            is_cell && (it.envoy.attempts, it.ours.attempts) == (1, 3)
        },
        why: "Envoy repeats a 429 only if it has the header `x-envoy-ratelimited`, which Envoy's own rate limit sends. \
              Here any 429 is repeated, not before its `Retry-After` and within the budget.",
    },
    Difference {
        is_it: |it| {
            let behaviours = [Behaviour::ResetBeforeHead, Behaviour::CloseBeforeHead];
            behaviours.contains(it.cell.behaviour)
                && it.envoy.attempts == it.ours.attempts
                && (it.envoy.status, it.ours.status) == (503, 502)
        },
        why: "Envoy answers 503 when a connection breaks before the response. Here 503 says that nothing was sent; an \
              upstream that was sent the request and gave no valid response is a 502.",
    },
];

/// The number of the reason for a difference.
fn reason(compared: &Compared) -> Option<usize> {
    (compared.envoy != compared.ours).then(|| {
        let found = DIFFERENCES.iter().position(|difference| (difference.is_it)(compared));
        let Compared { cell, envoy, ours } = compared;
        found.unwrap_or_else(|| panic!("{cell}: Envoy {envoy}, here {ours}: no reason is listed"))
            + 1
    })
}

/// Compares the results with the page.
pub(super) fn check(results: &[&Compared]) {
    let page = page(results);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/envoy/attempts.md");
    if env::var_os("REDIAL_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(page, known, "{}: REDIAL_BLESS=1 writes it again", path.display());
}

fn page(results: &[&Compared]) -> String {
    let mut page = INTRODUCTION.to_owned();
    let columns: Vec<String> = CONDITIONS.iter().map(|(name, _)| format!("`{name}`")).collect();
    writeln!(page, "| the upstream's behaviour | {} | status |", columns.join(" | ")).unwrap();
    writeln!(page, "|---|{}---|", "---|".repeat(CONDITIONS.len())).unwrap();
    for behaviour in &BEHAVIOURS {
        let row: Vec<_> = results.iter().filter(|it| it.cell.behaviour == behaviour).collect();
        write!(page, "| {behaviour} |").unwrap();
        for it in &row {
            assert_eq!(
                (it.envoy.status, it.ours.status),
                (row[0].envoy.status, row[0].ours.status),
                "{}: its status is that of the row",
                it.cell
            );
            let differs = it.envoy.attempts != it.ours.attempts;
            let reason = reason(it).filter(|_| differs);
            write!(page, " {} |", entry(&it.envoy.attempts, &it.ours.attempts, reason)).unwrap();
        }
        let (envoy, ours) = (row[0].envoy.outcome(), row[0].ours.outcome());
        let differs = envoy != ours;
        let reason = row.iter().filter(|_| differs).find_map(|it| reason(it));
        writeln!(page, " {} |", entry(&envoy, &ours, reason)).unwrap();
    }
    page.push('\n');
    for (place, Difference { is_it, why }) in DIFFERENCES.iter().enumerate() {
        assert!(results.iter().any(|it| is_it(it)), "the difference is not there any more: {why}");
        writeln!(page, "{}. {why}", place + 1).unwrap();
    }
    page + REST
}

fn entry<T: PartialEq + std::fmt::Display>(envoy: &T, ours: &T, reason: Option<usize>) -> String {
    match reason {
        None => ours.to_string(),
        Some(number) => format!("Envoy {envoy}, here {ours} ({number})"),
    }
}

const INTRODUCTION: &str = "\
# The sidecar and Envoy

A retry policy of Envoy that `redial import` has read makes the same attempts here. The table has the number of attempts that an upstream
saw when it treated every request in the same way, for each of Envoy's conditions (`retry_on`) and three attempts, and the status that
the caller got. It is the result of a test with Envoy 1.40.0 beside the sidecar, `cargo xtask test -- envoy`. `retriable-status-codes` lists
429 and 502.

";

const REST: &str = "
What the table does not show:

- **POST.** Envoy repeats a POST as it repeats a GET, so that an effect whose reply was lost happens twice. Here a POST is repeated if it has an
  `Idempotency-Key` (`keys = \"make\"` adds one), or if the upstream certainly did not process it: no connection, or a 429.
- **Statuses** that the table does not have: `5xx` is 500, 502, 503 and 504 here, and every status from 500 in Envoy; conditions with `reset` in them include 408 and 425 here.
- **Hints.** Envoy ignores `Retry-After` unless `rate_limited_retry_back_off` is set, and a hint above its limit is then retried earlier. Here a hint is a floor.
- **Waits.** Both draw them at random from the same range.
";
