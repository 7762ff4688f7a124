//! How fast are the queues: the one in memory beside a plain one, the durable ones beside their peers?
//!
//! Everything runs in its own process, ours and the peers alike, so that memory is that of one queue. In memory
//! both sides process the same keys in turns, and the best of a few rounds counts: other load only slows runs down.
//! Durable queues are bounded by the disk, so its rate of syncs is listed with them.

mod cases;
mod deliver;
mod disk;
mod durable;
mod memory;
mod peers;
mod timed;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::table::{Bar, Line, Part, Report};
pub(crate) use cases::run as run_case;
use cases::{Measured, child};

/// Keys in memory.
const KEYS: [u64; 3] = [1_000, 100_000, 1_000_000];
const ROUNDS: usize = 5;
/// The Postgres server; `cargo xtask bench queue` starts one and sets it.
const POSTGRES: &str = "REDIAL_TEST_POSTGRES";

const NOTES: &[&str] = &[
    "in memory: millions of add+get+done a second on one thread, each key another; bytes are the resident ones",
    "durable: jobs of 200 bytes claimed and settled a second by 32 workers, with synchronous=FULL or synchronous_commit=on;",
    "peers are given at most 20,000 pending jobs, because some take minutes to fill, and run for as long as ours at most",
];

/// What is measured, and for how long.
struct Size {
    pending: u64,
    seconds: u64,
}

/// `queue` and its options.
pub(crate) fn command(args: &[&str]) -> Result<(), String> {
    let (mut size, mut json, mut rest) = (Size { pending: 1_000_000, seconds: 20 }, false, args);
    let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
    loop {
        rest = match rest {
            [] => break,
            ["--json", rest @ ..] => {
                json = true;
                rest
            }
            ["--pending", n, rest @ ..] => {
                size.pending = number(n)?;
                rest
            }
            ["--seconds", n, rest @ ..] => {
                size.seconds = number(n)?;
                rest
            }
            _ => {
                let rest = rest.join(" ");
                return Err(format!(
                    "`queue` takes --pending N, --seconds N and --json, not {rest:?}"
                ));
            }
        };
    }
    let folder = std::env::current_dir().map_err(|error| error.to_string())?;
    let folder = folder.join(format!("target/bench-queue-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let report = measure(&folder, &size);
    let _ = fs::remove_dir_all(&folder);
    let report = report?;
    if json {
        crate::print_json(&report);
    } else {
        print!("{report}");
    }
    Ok(())
}

fn measure(folder: &Path, size: &Size) -> Result<Report, String> {
    let mut absent = Vec::new();
    let mut rows = vec![in_memory()?];
    rows.push(sqlite(folder, size, &mut absent)?);
    match std::env::var(POSTGRES) {
        Ok(url) => rows.push(postgres(&url, size, &mut absent)?),
        Err(_) => {
            absent.push(format!(
                "no Postgres: {POSTGRES} is not set; `cargo xtask bench queue` sets it"
            ));
        }
    }
    let delivered = child(&["deliver", &text(&folder.join("deliver")), "20000"])?;
    let bar = Bar::AtLeast(3_000.0);
    rows.push(vec![Line::new(
        "deliveries to a loopback sink, durable",
        vec![],
        delivered.rate(),
        bar,
    )]);
    Ok(Report::new(rows, NOTES).with(absent))
}

fn in_memory() -> Result<Vec<Line>, String> {
    let mut best: BTreeMap<(u64, &str), Measured> = BTreeMap::new();
    for _ in 0..ROUNDS {
        for keys in KEYS {
            for name in ["plain", "ours"] {
                let measured = child(&[name, &keys.to_string()])?;
                let known = best.entry((keys, name)).or_insert(measured);
                if measured.rate() > known.rate() {
                    *known = measured;
                }
            }
        }
    }
    let millions = |keys, name| best[&(keys, name)].rate() / 1e6;
    let line = |what, keys| {
        let peers = vec![Part { name: "Mutex+HashSet", value: millions(keys, "plain") }];
        Line::new(what, peers, millions(keys, "ours"), Bar::AtLeast(3.0))
    };
    let [few, _, many] = KEYS;
    let slower = |name| millions(few, name) / millions(many, name);
    let bytes = |name| best[&(many, name)].bytes / many as f64;
    Ok(vec![
        line("in memory, 1,000 keys wait", KEYS[0]),
        line("in memory, 100,000 keys wait", KEYS[1]),
        line("in memory, 1,000,000 keys wait", KEYS[2]),
        Line::new(
            "times as fast with 1,000 keys as with 1,000,000",
            vec![Part { name: "Mutex+HashSet", value: slower("plain") }],
            slower("ours"),
            Bar::AtMost(1.5),
        ),
        Line::new(
            "bytes a key",
            vec![Part { name: "Mutex+HashSet", value: bytes("plain") }],
            bytes("ours"),
            Bar::AtMost(200.0),
        ),
    ])
}

fn sqlite(folder: &Path, size: &Size, absent: &mut Vec<String>) -> Result<Vec<Line>, String> {
    let syncs = disk::syncs_per_second(folder)?;
    let (pending, seconds) = (size.pending.to_string(), size.seconds.to_string());
    let ours = child(&["sqlite", &text(&folder.join("ours")), &pending, &seconds])?;
    let mut lines = vec![
        Line::new("fdatasync of 4 KB appended, a second", vec![], syncs, Bar::None),
        Line::new("SQLite, jobs a second", vec![], ours.rate(), Bar::AtLeast(7_000.0)),
        Line::new("SQLite, p99 of a settlement in ms", vec![], ours.p99_ms, Bar::AtMost(20.0)),
        Line::new("SQLite, resident MB", vec![], ours.bytes / 1e6, Bar::AtMost(300.0)),
    ];
    let same = child(&["sqlite", &text(&folder.join("same")), peers::PENDING, &seconds])?;
    let names = [("apalis-sqlite", "apalis-sqlite.db"), ("effectum", "effectum.db")];
    let measured = names.map(|(name, file)| (name, text(&folder.join(file))));
    lines.extend(beside(
        "SQLite, times the faster peer",
        &measured,
        same.rate(),
        5.0,
        &seconds,
        absent,
    ));
    Ok(lines)
}

fn postgres(url: &str, size: &Size, absent: &mut Vec<String>) -> Result<Vec<Line>, String> {
    let seconds = size.seconds.to_string();
    let ours = child(&["postgres", url, peers::PENDING, &seconds])?;
    let mut lines = vec![
        Line::new("Postgres, jobs a second", vec![], ours.rate(), Bar::AtLeast(5_000.0)),
        Line::new("Postgres, p99 of a settlement in ms", vec![], ours.p99_ms, Bar::None),
    ];
    let measured = ["graphile-worker", "apalis-postgres"].map(|name| (name, url.to_owned()));
    lines.extend(beside(
        "Postgres, times the faster peer",
        &measured,
        ours.rate(),
        2.0,
        &seconds,
        absent,
    ));
    Ok(lines)
}

/// Our rate as a multiple of the fastest peer's. A peer that cannot be measured is reported.
fn beside(
    what: &'static str,
    peers: &[(&'static str, String)],
    ours: f64,
    times: f64,
    seconds: &str,
    absent: &mut Vec<String>,
) -> Option<Line> {
    let mut rates = Vec::new();
    for (name, store) in peers {
        match peers::measure(name, store, seconds) {
            Ok(value) => rates.push(Part { name, value }),
            Err(message) => absent.push(format!("{name} was not measured: {message}")),
        }
    }
    let fastest = rates.iter().map(|part| part.value).reduce(f64::max)?;
    rates.push(Part { name: "ours", value: ours });
    Some(Line::new(what, rates, ours / fastest, Bar::AtLeast(times)))
}

fn text(path: &Path) -> String {
    PathBuf::from(path).to_string_lossy().into_owned()
}
