//! The attributes of a request, by the semantic conventions of OpenTelemetry.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use opentelemetry::propagation::Injector;
use opentelemetry::{Context, KeyValue, global};
use redial_core::decide::{Failure, GRPC_STATUSES};

/// The attributes of a request that are known before it is sent.
pub(super) enum Facts {
    Http {
        method: &'static str,
        server: Option<(String, u16)>,
        url: Option<String>,
    },
    /// The method, including its service.
    Grpc {
        method: String,
        server: Option<(String, u16)>,
    },
}

impl Facts {
    /// `server` is the target of the channel, for requests without an authority.
    pub(super) fn new(method: &Method, uri: &Uri, grpc: bool, server: Option<(&str, u16)>) -> Self {
        let named = server_of(uri);
        if grpc {
            let server = named.or(server).map(owned);
            return Self::Grpc { method: uri.path().trim_start_matches('/').to_owned(), server };
        }
        let url = uri.scheme_str().zip(uri.host()).map(|(scheme, host)| {
            let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
            format!("{scheme}://{host}{port}{}", uri.path())
        });
        Self::Http { method: known(method), server: named.map(owned), url }
    }

    /// The name of a span.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Http { method: OTHER, .. } => "HTTP",
            Self::Http { method, .. } => method,
            Self::Grpc { method, .. } => method,
        }
    }

    pub(super) fn grpc_method(&self) -> Option<&str> {
        match self {
            Self::Http { .. } => None,
            Self::Grpc { method, .. } => Some(method),
        }
    }

    /// The attributes of this attempt's request.
    pub(super) fn request(&self, number: u32) -> Vec<KeyValue> {
        let (mut attributes, server) = match self {
            Self::Http { method, server, url } => {
                let mut attributes = vec![KeyValue::new("http.request.method", *method)];
                if number > 1 {
                    let resent = i64::from(number) - 1;
                    attributes.push(KeyValue::new("http.request.resend_count", resent));
                }
                if let Some(url) = url {
                    attributes.push(KeyValue::new("url.full", url.clone()));
                }
                (attributes, server)
            }
            Self::Grpc { method, server } => {
                let system = KeyValue::new("rpc.system.name", "grpc");
                (vec![system, KeyValue::new("rpc.method", method.clone())], server)
            }
        };
        if let Some((host, port)) = server {
            attributes.push(KeyValue::new("server.address", host.clone()));
            attributes.push(KeyValue::new("server.port", i64::from(*port)));
        }
        attributes
    }

    /// The attribute of a response. A gRPC call has its status in the trailers.
    pub(super) fn response(&self, status: u16) -> Option<KeyValue> {
        match self {
            Self::Http { .. } => {
                Some(KeyValue::new("http.response.status_code", i64::from(status)))
            }
            Self::Grpc { .. } => None,
        }
    }

    /// The attribute of a failure.
    pub(super) fn failure(&self, failure: &Failure) -> Option<KeyValue> {
        match self {
            Self::Http { .. } => None,
            Self::Grpc { .. } => {
                let name = GRPC_STATUSES.get(usize::from(failure.code?.get()))?;
                Some(KeyValue::new("rpc.response.status_code", *name))
            }
        }
    }
}

fn server_of(uri: &Uri) -> Option<(&str, u16)> {
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    let usual = || if uri.scheme_str() == Some("http") { 80 } else { 443 };
    Some((host, uri.port_u16().unwrap_or_else(usual)))
}

fn owned((host, port): (&str, u16)) -> (String, u16) {
    (host.to_owned(), port)
}

/// The name for unknown methods, of which there may be any number.
const OTHER: &str = "_OTHER";

fn known(method: &Method) -> &'static str {
    const KNOWN: [&str; 10] =
        ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or(OTHER)
}

/// Injects the trace context.
pub(super) fn inject(context: &Context, headers: &mut HeaderMap) {
    global::get_text_map_propagator(|propagator| {
        propagator.inject_context(context, &mut Headers(headers));
    });
}

struct Headers<'a>(&'a mut HeaderMap);

impl Injector for Headers<'_> {
    fn set(&mut self, name: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}
