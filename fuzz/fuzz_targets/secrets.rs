//! Any text, read as the secrets of receivers: it is valid, or the error has the line, and neither shows a secret.
#![no_main]

use libfuzzer_sys::fuzz_target;
use redial_queue::delivery::Secrets;

const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fuzz_target!(|input: &str| {
    let text = input.replace('$', &format!("whsec_{SECRET}"));
    let shown = match text.parse::<Secrets>() {
        Ok(secrets) => format!("{secrets:?}"),
        Err(error) => {
            let shown = error.to_string();
            assert!(shown.starts_with("line ") || shown.starts_with("no secret"), "{shown}");
            shown
        }
    };
    // URLs are shown, and the fuzzer may put the secret into one.
    let mut urls = text.lines().filter_map(|line| line.split_whitespace().next());
    assert!(!shown.contains(SECRET) || urls.any(|url| url.contains(SECRET)), "{shown}");
});
