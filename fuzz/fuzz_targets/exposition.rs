//! Any page of metrics: it is read without a panic, each line once, and each sample is the same when it is written and
//! read again.
#![no_main]

// The file itself, because its crate depends on a database and TLS.
#[path = "../../crates/redial-cli/src/exposition.rs"]
#[allow(dead_code)]
mod exposition;

use std::fmt::Write as _;

use exposition::{MOST_LABELS, MetricSample, samples};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|page: &str| {
    let lines = page.lines().count();
    let mut last = 0;
    for sample in samples(page) {
        match sample {
            Err(wrong) => {
                assert!(last < wrong.line && wrong.line <= lines);
                last = wrong.line;
                assert!(wrong.to_string().len() < 600);
            }
            Ok(sample) => again(&sample),
        }
    }
});

fn again(sample: &MetricSample<'_>) {
    assert!(sample.labels.len() <= MOST_LABELS);
    let mut line = format!("{{{}", quoted(&sample.name));
    for (name, value) in &sample.labels {
        let _ = write!(line, ",{}={}", quoted(name), quoted(value));
    }
    let _ = write!(line, "}} {}", sample.value);
    // With quotes it may exceed the longest line.
    if line.len() > exposition::LONGEST_LINE || line.contains('\r') {
        return;
    }
    let read = samples(&line).next().expect("a sample").expect("what is written is read");
    assert_eq!((&read.name, &read.labels), (&sample.name, &sample.labels));
    assert!(read.value == sample.value || read.value.is_nan() && sample.value.is_nan());
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n"))
}
