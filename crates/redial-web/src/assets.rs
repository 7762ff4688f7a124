//! The built page, which is a part of the program: a machine without Node builds and serves everything.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode, Uri};

use crate::error::ApiError;

/// A file of `dist/`.
struct File {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    /// The same in gzip's format.
    packed: Option<&'static [u8]>,
}

/// Paths of pages get the first one.
const FILES: [File; 4] = [
    File {
        path: "/",
        kind: "text/html; charset=utf-8",
        bytes: include_bytes!("../dist/index.html"),
        packed: None,
    },
    File {
        path: "/app.js",
        kind: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../dist/app.js"),
        packed: Some(include_bytes!("../dist/app.js.gz")),
    },
    File {
        path: "/app.css",
        kind: "text/css; charset=utf-8",
        bytes: include_bytes!("../dist/app.css"),
        packed: Some(include_bytes!("../dist/app.css.gz")),
    },
    File {
        path: "/licences.txt",
        kind: "text/plain; charset=utf-8",
        bytes: include_bytes!("../dist/licences.txt"),
        packed: None,
    },
];

const PAGES: [&str; 5] = ["/", "/playground", "/exercise", "/queue", "/policies"];

pub(crate) async fn serve(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = if PAGES.contains(&uri.path()) { "/" } else { uri.path() };
    let Some(file) = FILES.iter().find(|file| file.path == path) else {
        let why = format!("there is no page {path}; the pages are {}", PAGES.join(", "));
        return ApiError::new(StatusCode::NOT_FOUND, why).into_response();
    };
    if method == Method::POST {
        let why = format!("{path} can only be read");
        return ApiError::new(StatusCode::METHOD_NOT_ALLOWED, why).into_response();
    }
    let packed = file.packed.filter(|_| accepts_gzip(&headers));
    let bytes = packed.unwrap_or(file.bytes);
    // A browser asks each time whether it has changed: another version of the program may answer at the same address.
    let tag = tag(bytes);
    let always = [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
    ];
    let known = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    if known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag)) {
        return (StatusCode::NOT_MODIFIED, always, [(header::ETAG, tag)]).into_response();
    }
    let kind = [(header::CONTENT_TYPE, file.kind)];
    let mut response = (always, [(header::ETAG, tag)], kind, bytes).into_response();
    if packed.is_some() {
        let gzip = HeaderValue::from_static("gzip");
        response.headers_mut().insert(header::CONTENT_ENCODING, gzip);
    }
    response
}

/// The same for the same bytes in the same program.
fn tag(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter();
    let parts = accepted.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let mut names = parts.map(|part| part.split_once(';').unwrap_or((part, "")));
    names
        .any(|(name, quality)| name.trim().eq_ignore_ascii_case("gzip") && !is_zero(quality.trim()))
}

/// `q=0` refuses.
fn is_zero(quality: &str) -> bool {
    let value = quality.strip_prefix("q=").and_then(|value| value.parse::<f32>().ok());
    value.is_some_and(|value| value <= 0.0)
}
