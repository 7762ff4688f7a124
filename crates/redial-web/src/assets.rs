//! The built page, which is a part of the program: a machine without Node builds and serves everything.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, Uri, header};

/// The files of `dist/`. Paths of pages get the first one.
const FILES: [(&str, &str, &[u8]); 3] = [
    ("/", "text/html; charset=utf-8", include_bytes!("../dist/index.html")),
    ("/app.js", "text/javascript; charset=utf-8", include_bytes!("../dist/app.js")),
    ("/app.css", "text/css; charset=utf-8", include_bytes!("../dist/app.css")),
];

const PAGES: [&str; 5] = ["/", "/playground", "/exercise", "/queue", "/policies"];

pub(crate) async fn serve(uri: Uri) -> Response {
    let path = if PAGES.contains(&uri.path()) { "/" } else { uri.path() };
    match FILES.iter().find(|(name, ..)| *name == path) {
        Some((_, kind, bytes)) => ([(header::CONTENT_TYPE, *kind)], *bytes).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
