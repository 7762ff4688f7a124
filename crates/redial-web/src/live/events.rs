//! The stream of samples as server-sent events.

use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::{Live, Moment, Sample};
use crate::demo::Demo;

/// How long a browser waits before it connects again, in milliseconds: drawn, so that many tabs do not come back together.
const RETRY_MS: std::ops::Range<u64> = 1000..3000;
/// Samples that are further apart than this leave a gap.
const GAP_MS: u64 = 2500;

/// The body of the response. It has no end.
pub(super) struct Events(mpsc::Receiver<Bytes>);

impl Events {
    /// The samples after this one, and then each new one.
    pub(super) fn after(live: &Live, demo: Option<Arc<Demo>>, after: Option<u64>) -> Self {
        // Before the ring is copied: what comes between is then in both, and is skipped.
        let mut moments = live.subscribe();
        let seen = live.seen();
        let missed = seen.ring.after(after.unwrap_or(0));
        let oldest = seen.ring.first().map(|sample| sample.id);
        let latest = seen.latest.clone();
        drop(seen);
        let (sender, receiver) = mpsc::channel(4);
        tokio::spawn(async move {
            let mut last = after.unwrap_or(0);
            let first = first_event(after, oldest, &missed, latest.as_deref(), demo.as_deref());
            last = missed.last().map_or(last, |sample| sample.id.max(last));
            let mut sent = sender.send(first.into()).await;
            while sent.is_ok() {
                let event = match moments.recv().await {
                    Ok(moment) if moment.sample.id <= last => continue,
                    Ok(moment) => {
                        last = moment.sample.id;
                        event_of(&moment.sample, Some(&moment), demo.as_deref())
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

/// Everything that is known already, in one piece.
fn first_event(
    after: Option<u64>,
    oldest: Option<u64>,
    missed: &[Arc<Sample>],
    latest: Option<&Moment>,
    demo: Option<&Demo>,
) -> String {
    let drawn = RandomState::new().hash_one(missed.len());
    let retry = RETRY_MS.start + drawn % (RETRY_MS.end - RETRY_MS.start);
    let mut text = format!("retry: {retry}\n\n");
    if let (Some(after), Some(oldest)) = (after, oldest)
        && oldest > after + GAP_MS
    {
        text.push_str(&gap(json!({ "from": after, "to": oldest })));
    }
    for sample in missed {
        let moment = latest.filter(|latest| latest.sample.id == sample.id);
        text.push_str(&event_of(sample, moment, demo));
    }
    text
}

/// A sample, with the state if it is the latest.
fn event_of(sample: &Sample, moment: Option<&Moment>, demo: Option<&Demo>) -> String {
    let mut data = serde_json::to_value(sample).unwrap_or_default();
    if let Some(Moment { state, .. }) = moment {
        data["state"] = serde_json::to_value(state).unwrap_or_default();
        data["state"]["fault"] = demo.map_or(Value::Null, Demo::fault);
    }
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
