//! Any text, taken for the secrets of receivers: it is read, or the error names the line, and neither shows a secret.
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
    // A URL is shown, and the fuzzer may put the secret into one.
    assert!(!shown.contains(SECRET) || text.contains("//"), "{shown}");
});
