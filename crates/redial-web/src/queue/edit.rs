//! A dead letter is often dead because of what it carries: an operator repairs that before it starts again.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use http::StatusCode;
use redial_queue::Priority;
use redial_queue::delivery::Delivery;
use redial_queue::durable::{Edit, Job, JobId, NewPolicy};
use serde::{Deserialize, Serialize};

use super::job::{gone, is_secret};
use super::{payload, store};
use crate::app::App;
use crate::body::Body;
use crate::error::ApiError;

/// What is not named stays as it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Changes {
    payload_text: Option<String>,
    payload_hex: Option<String>,
    headers: Option<Vec<Header>>,
    /// An empty name is the worker's own policy.
    policy: Option<String>,
    priority: Option<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    name: String,
    /// Null keeps the value of a secret header, which the page never had.
    value: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(super) struct Edited {
    id: i64,
}

pub(super) async fn edit(
    state: State<Arc<App>>,
    Path(id): Path<i64>,
    Body(changes): Body<Changes>,
) -> Result<Json<Edited>, ApiError> {
    let store = store(state)?;
    let job = store.get(JobId(id)).await?.ok_or_else(|| gone(id))?;
    let edit = changes.on(&job)?;
    if !store.edit(job.id, edit).await? {
        let why = format!("job {id} has started or was removed meanwhile; nothing was changed");
        return Err(ApiError::new(StatusCode::CONFLICT, why));
    }
    Ok(Json(Edited { id }))
}

impl Changes {
    fn on(self, job: &Job) -> Result<Edit, ApiError> {
        let payload = match (self.payload_text, self.payload_hex) {
            (None, None) => None,
            (Some(text), None) => Some(text.into_bytes()),
            (None, Some(hex)) => Some(payload::from_hex(&hex).map_err(ApiError::bad_request)?),
            (Some(_), Some(_)) => {
                return Err(ApiError::bad_request(
                    "payload_text and payload_hex: send one of them",
                ));
            }
        };
        let headers = self.headers.map(|headers| with_secrets(headers, job)).transpose()?;
        if let Some(headers) = &headers {
            check(headers, job)?;
        }
        let policy = self.policy.map(|name| match name.as_str() {
            "" => NewPolicy::OfWorker,
            _ => NewPolicy::Named(name),
        });
        let priority = self.priority.map(priority).transpose()?;
        Ok(Edit { payload, headers, policy, priority })
    }
}

fn priority(level: u8) -> Result<Priority, ApiError> {
    match level {
        0..=7 => Ok(Priority::new(level)),
        _ => Err(ApiError::bad_request(format!("priority: {level} is not from 0 to 7"))),
    }
}

fn with_secrets(headers: Vec<Header>, job: &Job) -> Result<Vec<(String, String)>, ApiError> {
    let mut secrets = job.headers.iter().filter(|(name, _)| is_secret(name)).collect::<Vec<_>>();
    let mut value = |header: Header| {
        if header.name.trim().is_empty() {
            return Err(ApiError::bad_request("headers: a header has no name"));
        }
        if let Some(value) = header.value {
            return Ok((header.name, value));
        }
        let same = |(name, _): &&(String, String)| name.eq_ignore_ascii_case(&header.name);
        let at = secrets.iter().position(same).ok_or_else(|| {
            ApiError::bad_request(format!("headers: {} has no value", header.name))
        })?;
        Ok(secrets.remove(at).clone())
    };
    headers.into_iter().map(&mut value).collect()
}

/// A delivery that could never be sent is refused now.
fn check(headers: &[(String, String)], job: &Job) -> Result<(), ApiError> {
    if !Delivery::is_delivery(headers) {
        return Ok(());
    }
    let wrong =
        |why: redial_queue::delivery::InvalidDelivery| ApiError::bad_request(why.to_string());
    Delivery::of_headers(headers).map_err(wrong)?;
    Delivery::check_key(&job.idempotency_key).map_err(wrong)
}
