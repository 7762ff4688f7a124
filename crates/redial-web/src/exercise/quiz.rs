//! The four questions of the lesson. The answers stay on the server until a visitor has chosen.

use serde::Serialize;

/// A question with its options.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct QuizQuestion {
    pub(crate) text: &'static str,
    pub(crate) options: &'static [&'static str],
    /// The index of the right option.
    #[serde(skip)]
    pub(crate) right: usize,
    #[serde(skip)]
    pub(crate) explanation: &'static str,
    /// The command that shows it.
    #[serde(skip)]
    pub(crate) command: &'static str,
}

pub(crate) const QUIZ: [QuizQuestion; 4] = [
    QuizQuestion {
        text: "A client receives HTTP 404 Not Found. What should it do?",
        options: &[
            "Retry with exponential backoff",
            "Retry once, at once",
            "Not retry: correct the address, or handle the missing resource",
            "Wait for Retry-After, and then retry",
        ],
        right: 2,
        explanation: "404 is final: the server understood the request, and the resource is not there. A second request gets the same answer.",
        command: "redial explain --policy standard --outcomes 404",
    },
    QuizQuestion {
        text: "Why is full jitter, a random wait between 0 and the ceiling, better than waiting exactly as long as the backoff says?",
        options: &[
            "It makes a single client succeed sooner",
            "It keeps clients that failed together from coming back together",
            "It makes waits longer, and that gives the server more time",
            "It needs no limit for the wait",
        ],
        right: 1,
        explanation: "Its value is collective. Clients that fail at the same instant draw different waits, so that their retries spread over the window. A single client does not wait longer: the draw is at most the ceiling.",
        command: "redial explain --policy peer:backon --runs 3",
    },
    QuizQuestion {
        text: "A server answers 429 with Retry-After: 45. The backoff computes 3 seconds. How long does the client wait?",
        options: &[
            "3 seconds",
            "24 seconds, the mean of both",
            "At least 45 seconds",
            "48 seconds, the sum of both",
        ],
        right: 2,
        explanation: "The server knows its own limits. Retry-After is a floor for the wait; a spread is added, because other clients got the same answer.",
        command: "redial explain --policy web --outcomes 429@retry-after=45,200",
    },
    QuizQuestion {
        text: "Which condition makes it safe to retry POST /transfers?",
        options: &[
            "The request timed out, so the server did not receive it",
            "The server recognises the repeated request by an idempotency key",
            "The server answered 500, so nothing was done",
            "The client waits long enough before the retry",
        ],
        right: 1,
        explanation: "A timeout or a 500 does not say whether the transfer was made. Only a server that recognises the same key makes the second request harmless.",
        command: "redial explain --policy payment-processor --outcomes reset,200 --safety keyed",
    },
];
