//! Any `Idempotency-Key`: the layer accepts exactly the keys in its documentation, and a key in quotes is the same key
//! as without them.
#![no_main]

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Empty;
use libfuzzer_sys::fuzz_target;
use redial::http::names;
use redial::http::server::{IdempotencyLayer, MemoryStore};
use tower::{Layer, ServiceExt, service_fn};

fuzz_target!(|input: &[u8]| {
    let Ok(value) = HeaderValue::from_bytes(input) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime without I/O").block_on(async {
        let layer = IdempotencyLayer::new(MemoryStore::default());
        let first = ask(&layer, &value).await;
        let (taken, replayed) = taken(&first);
        assert!(!replayed);
        if let Some(expected) = is_key(input) {
            assert_eq!(taken, expected, "{input:?}");
        }
        if taken {
            assert_eq!(self::taken(&ask(&layer, &value).await), (true, true));
        }
        if taken && input[0] != b'"' && !input.contains(&b'\\') {
            let quoted = [b"\"", input, b"\""].concat();
            let quoted = HeaderValue::from_bytes(&quoted).expect("a valid header value");
            assert_eq!(self::taken(&ask(&layer, &quoted).await), (true, true), "{input:?}");
        }
    });
});

async fn ask(layer: &IdempotencyLayer<MemoryStore>, key: &HeaderValue) -> Response<()> {
    let service = layer.layer(service_fn(async |_: Request<_>| {
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    }));
    let request = Request::post("/pay").header(names::IDEMPOTENCY_KEY, key);
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    let Ok(response) = service.oneshot(request).await;
    response.map(drop)
}

fn taken(response: &Response<()>) -> (bool, bool) {
    let taken = response.status() == StatusCode::OK;
    assert!(taken || response.status() == StatusCode::BAD_REQUEST);
    (taken, response.headers().contains_key(names::IDEMPOTENT_REPLAYED))
}

/// One to 255 characters: visible ASCII without comma and quote, or in quotes any printable ASCII with `"` and
/// `\` escaped. `None` when parameters follow, whose grammar is the structured fields' own.
fn is_key(value: &[u8]) -> Option<bool> {
    let Some(mut rest) = value.strip_prefix(b"\"") else {
        let ours = |byte: &u8| byte.is_ascii_graphic() && !b",\"".contains(byte);
        return Some((1..=255).contains(&value.len()) && value.iter().all(ours));
    };
    let mut length = 0;
    loop {
        rest = match rest {
            [b'"', end @ ..] if end.iter().all(|byte| *byte == b' ') => {
                return Some((1..=255).contains(&length) && value.len() <= 1024);
            }
            [b'"', b';', ..] => return None,
            [b'\\', b'"' | b'\\', rest @ ..] => rest,
            [b'"' | b'\\', ..] | [] => return Some(false),
            [b' '..=b'~', rest @ ..] => rest,
            _ => return Some(false),
        };
        length += 1;
    }
}
