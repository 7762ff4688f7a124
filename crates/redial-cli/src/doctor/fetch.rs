//! Fetches a page of metrics from an address that a person has typed. There are many ways to type the wrong one, and each
//! has an error that says what to do.

use std::error::Error;
use std::time::Duration;

use redial::telemetry::names::ATTEMPTS;
use redial_cli::diagnose::Scrape;
use redial_cli::exposition::LARGEST_PAGE;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Response, Url};

use crate::clock;
use crate::duration;
use crate::failed::Failed;

/// The default scrape timeout of Prometheus.
const TIMEOUT: Duration = Duration::from_secs(10);
const ACCEPTED: &str = "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5";
const PATHS: &str =
    "metrics are often at /metrics, and Envoy's at /stats/prometheus of its admin port";

/// The query parameter of the address that `redial up` prints.
const TOKEN: &str = "token";

/// The URL of metrics.
#[derive(Clone)]
pub(super) struct Endpoint {
    url: Url,
    shown: String,
    /// For `redial up`. Other servers may read it from the URL, where it stays.
    token: Option<String>,
}

impl Endpoint {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let form = "write it as http://HOST:PORT/metrics";
        let mut url = Url::parse(text).map_err(|error| format!("{error}; {form}"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(format!("not an HTTP URL; {form}"));
        }
        let token = url.query_pairs().find(|(name, _)| name == TOKEN);
        let token = token.map(|(_, token)| token.into_owned());
        // The address of the page itself.
        if token.is_some() && url.path() == "/" {
            url.set_path("/metrics");
        }
        let mut shown = url.clone();
        if shown.password().is_some() {
            let _ = shown.set_password(Some("…"));
        }
        if token.is_some() {
            let pairs = url.query_pairs();
            let hidden = pairs.map(|(name, value)| match name == TOKEN {
                true => (name, "***".into()),
                false => (name, value),
            });
            shown.query_pairs_mut().clear().extend_pairs(hidden);
        }
        Ok(Self { shown: shown.to_string(), url, token })
    }

    /// The URL without its password and token.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) async fn scrape(&self) -> Result<Scrape, Failed> {
        let wrong = |why: String| Failed::input(&self.shown, why);
        let at = clock::now();
        let got = tokio::time::timeout(TIMEOUT, self.page()).await;
        let page = got.unwrap_or_else(|_| Err(timed_out())).map_err(wrong)?;
        let scrape = Scrape::read(&page, at)
            .map_err(|error| wrong(format!("not the text format of Prometheus: {error}")))?;
        if scrape.is_useful() {
            return Ok(scrape);
        }
        let why = match scrape.samples() {
            0 => format!("the response has no metrics; {PATHS}"),
            n => format!(
                "none of its {n} samples is about retries, such as {} or Envoy's envoy_cluster_upstream_rq_total: does the program \
                 have a meter, and has it made a call?",
                ATTEMPTS.name
            ),
        };
        Err(wrong(why))
    }

    async fn page(&self) -> Result<String, String> {
        let client = Client::builder().no_proxy().build().map_err(|error| chain(&error))?;
        let mut request = client.get(self.url.clone()).header(ACCEPT, ACCEPTED);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let got = request.send().await;
        let answer = got.map_err(|error| self.unreached(&error))?;
        let status = answer.status();
        match status.as_u16() {
            200..=299 => {}
            401 | 403 => {
                return Err(format!(
                    "responds with {status}: write http://USER:PASSWORD@HOST… if it needs a password, and for `redial up` the \
                     address that it prints, with its token"
                ));
            }
            404 => return Err(format!("responds with {status}; {PATHS}")),
            _ => return Err(format!("responds with {status}: check the server")),
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        let body = body(answer).await?;
        let page = String::from_utf8(body)
            .map_err(|_| format!("responds with data that is not text ({kind}); {PATHS}"))?;
        let start = page.trim_start();
        if start.starts_with('<') {
            return Err(format!("responds with a web page; {PATHS}"));
        }
        if kind.contains("json") || start.starts_with('[') {
            return Err(format!("responds with JSON; {PATHS}"));
        }
        Ok(page)
    }

    fn unreached(&self, error: &reqwest::Error) -> String {
        let hint = match self.url.scheme() {
            "https" => "if it has no TLS, write http://",
            _ => "check that the server runs, and that this is its port",
        };
        format!("cannot fetch it: {}; {hint}", chain(error))
    }
}

/// The body, up to the largest size that is read.
async fn body(mut answer: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(|error| {
        format!("the response is cut off after {} bytes: {}", body.len(), chain(&error))
    })? {
        if body.len() + part.len() > LARGEST_PAGE {
            let most = LARGEST_PAGE >> 20;
            return Err(format!(
                "responds with more than {most} MiB; for Envoy, append ?usedonly&filter=upstream_rq to the URL"
            ));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

fn timed_out() -> String {
    let timeout = duration::text(TIMEOUT);
    format!(
        "timed out after {timeout}: check whether the server hangs, and whether this is its port"
    )
}

/// The sources of an error of the client: its own message says little.
fn chain(error: &reqwest::Error) -> String {
    let mut last: &dyn Error = error;
    let mut sources = Vec::new();
    while let Some(source) = last.source() {
        last = source;
        sources.push(source.to_string());
    }
    if sources.is_empty() { error.to_string() } else { sources.join(": ") }
}
