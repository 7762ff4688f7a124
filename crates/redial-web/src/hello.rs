//! What the page needs to know first.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use redial_core::storm::Level;
use serde_json::{Map, Value, json};

use crate::app::App;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/hello", get(hello))
}

async fn hello(State(app): State<Arc<App>>) -> Json<Value> {
    let pages = [
        ("now", app.live.is_some()),
        ("playground", true),
        ("exercise", true),
        ("queue", app.store.is_some()),
        ("policies", true),
    ];
    let pages: Vec<&str> =
        pages.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect();
    let lines: Map<String, Value> = Level::LINES
        .map(|(level, line)| (level.name().to_owned(), line.into()))
        .into_iter()
        .collect();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "mode": app.mode(),
        "pages": pages,
        "lines": lines,
        "demo": app.demo.as_ref().map(|demo| demo.describe()),
    }))
}
