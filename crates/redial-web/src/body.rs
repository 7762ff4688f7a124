use axum::Json;
use axum::extract::{FromRequest, Query, Request};
use axum::extract::{FromRequestParts, rejection::JsonRejection};
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// A body of JSON. What is wrong with it is an error in JSON, too.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let read: Result<Json<T>, JsonRejection> = Json::from_request(request, state).await;
        let read = read.map_err(|wrong| ApiError::new(wrong.status(), wrong.body_text()));
        read.map(|Json(body)| Self(body))
    }
}

/// The query of an address.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = Query::<T>::from_request_parts(parts, state).await;
        let read = read.map_err(|wrong| ApiError::new(wrong.status(), wrong.body_text()));
        read.map(|Query(asked)| Self(asked))
    }
}
