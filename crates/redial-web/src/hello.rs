//! What the page needs to know first.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use redial_core::storm::Level;
use serde::Serialize;

use crate::app::App;
use crate::demo::DemoDescription;
use crate::live::SampleTimes;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/hello", get(hello))
}

/// What the server is.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct Hello {
    version: &'static str,
    mode: &'static str,
    /// The pages that this server has.
    pages: Vec<&'static str>,
    /// Thresholds of the storm detector, by level.
    lines: BTreeMap<&'static str, f64>,
    times: SampleTimes,
    demo: Option<DemoDescription>,
}

async fn hello(State(app): State<Arc<App>>) -> Json<Hello> {
    let pages = [
        ("now", app.live.is_some()),
        ("playground", true),
        ("exercise", true),
        ("queue", app.store.is_some()),
        ("policies", true),
    ];
    Json(Hello {
        version: env!("CARGO_PKG_VERSION"),
        mode: app.mode(),
        pages: pages.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect(),
        lines: Level::LINES.into_iter().map(|(level, line)| (level.name(), line)).collect(),
        times: SampleTimes::default(),
        demo: app.demo.as_ref().map(|demo| demo.describe()),
    })
}
