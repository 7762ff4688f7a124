//! The stream of samples as server-sent events.

use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::ring::SECONDS;
use super::{Live, LiveState, Moment, Sample};
use crate::demo::{ActiveFault, Demo};

/// How long a browser waits before it connects again, in milliseconds: drawn, so that many tabs do not come back together.
const RETRY_MS: std::ops::Range<u64> = 1000..3000;
/// Samples that are further apart than this leave a gap.
const GAP_MS: u64 = 2500;

/// A sample, as it is sent. The latest one has the state.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct SentSample<'a> {
    #[serde(flatten)]
    sample: &'a Sample,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    state: Option<SentState<'a>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct SentState<'a> {
    #[serde(flatten)]
    state: &'a LiveState,
    /// The fault of the demo.
    fault: Option<ActiveFault>,
}

/// The times by which the page tells that samples are missing.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct SampleTimes {
    /// Samples that are further apart have a gap between them.
    gap_ms: u64,
    /// How many samples are kept second by second.
    kept: usize,
}

impl Default for SampleTimes {
    fn default() -> Self {
        Self { gap_ms: GAP_MS, kept: SECONDS }
    }
}

/// The body of the response. It has no end.
pub(super) struct Events(mpsc::Receiver<Bytes>);

impl Events {
    /// The samples after this one, and then each new one.
    pub(super) fn after(live: &Live, demo: Option<Arc<Demo>>, after: Option<u64>) -> Self {
        // Before the ring is copied: what comes between is then in both, and is skipped.
        let mut moments = live.subscribe();
        let seen = live.seen();
        let newest = seen.ring.last().map_or(0, |sample| sample.id);
        let is_ahead = newest > 0 && after.is_some_and(|after| after > newest);
        let missed = seen.ring.after(after.filter(|_| !is_ahead).unwrap_or(0));
        let oldest = seen.ring.first().map(|sample| sample.id);
        let latest = seen.latest.clone();
        drop(seen);
        let (sender, receiver) = mpsc::channel(4);
        tokio::spawn(async move {
            let mut first = retry(missed.len());
            if is_ahead {
                first.push_str(&reset());
            } else {
                first.push_str(&gap_before(after, oldest));
            }
            for sample in &missed {
                let moment = latest.as_deref().filter(|latest| latest.sample.id == sample.id);
                first.push_str(&event_of(sample, moment, demo.as_deref()));
            }
            // Of a server that has no sample yet, the first one shows whether the visitor is ahead.
            let mut unchecked = after.filter(|_| newest == 0);
            let mut sent = sender.send(first.into()).await;
            while sent.is_ok() {
                let event = match moments.recv().await {
                    Ok(moment) if moment.sample.id <= newest => continue,
                    Ok(moment) => {
                        let is_ahead =
                            unchecked.take().is_some_and(|after| after >= moment.sample.id);
                        let event = event_of(&moment.sample, Some(&moment), demo.as_deref());
                        if is_ahead { reset() + &event } else { event }
                    }
                    Err(RecvError::Lagged(missed)) => gap(json!({ "missed": missed })),
                    Err(RecvError::Closed) => return,
                };
                sent = sender.send(event.into()).await;
            }
        });
        Self(receiver)
    }
}

/// When a browser is to connect again.
fn retry(seed: usize) -> String {
    let drawn = RandomState::new().hash_one(seed);
    let ms = RETRY_MS.start + drawn % (RETRY_MS.end - RETRY_MS.start);
    format!("retry: {ms}\n\n")
}

/// The gap between the visitor's last sample and the oldest one that is kept; empty if there is none.
fn gap_before(after: Option<u64>, oldest: Option<u64>) -> String {
    match (after, oldest) {
        (Some(after), Some(oldest)) if oldest > after.saturating_add(GAP_MS) => {
            gap(json!({ "from": after, "to": oldest }))
        }
        _ => String::new(),
    }
}

/// The visitor has samples of a later time, because the clock was set back and the server restarted: they are to be
/// forgotten, or all that follow would count as old.
fn reset() -> String {
    gap(json!({ "reset": true }))
}

/// A sample, with the state if it is the latest.
fn event_of(sample: &Sample, moment: Option<&Moment>, demo: Option<&Demo>) -> String {
    let state =
        moment.map(|moment| SentState { state: &moment.state, fault: demo.and_then(Demo::fault) });
    let data = serde_json::to_string(&SentSample { sample, state }).unwrap_or_default();
    format!("event: sample\nid: {}\ndata: {data}\n\n", sample.id)
}

fn gap(data: Value) -> String {
    format!("event: gap\ndata: {data}\n\n")
}

impl Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
