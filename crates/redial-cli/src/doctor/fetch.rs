//! A page of metrics, from an address that a person has typed. There are many ways to type the wrong one, and each gets
//! a sentence that says what to do.

use std::error::Error;
use std::time::Duration;

use redial_cli::diagnose::Scrape;
use redial_cli::exposition::LARGEST_PAGE;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Response, Url};

use crate::failed::Failed;
use crate::run::clock;

/// As long as Prometheus waits, unless it is told otherwise.
const PATIENCE: Duration = Duration::from_secs(10);
const ACCEPTED: &str = "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5";
const PATHS: &str =
    "metrics are often at /metrics, and Envoy's at /stats/prometheus of its admin port";

/// Where metrics are.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    url: Url,
    shown: String,
}

impl Endpoint {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let form = "write it as http://HOST:PORT/metrics";
        let url = Url::parse(text).map_err(|error| format!("{error}; {form}"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(format!("this is no address of a web server; {form}"));
        }
        // Whoever reads the answer need not know the password.
        let mut shown = url.clone();
        if shown.password().is_some() {
            let _ = shown.set_password(Some("…"));
        }
        Ok(Self { shown: shown.to_string(), url })
    }

    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) async fn scrape(&self) -> Result<Scrape, Failed> {
        let wrong = |why: String| Failed::input(&self.shown, why);
        let at = clock::now();
        let got = tokio::time::timeout(PATIENCE, self.page()).await;
        let page = got.unwrap_or_else(|_| Err(slow())).map_err(wrong)?;
        let scrape = Scrape::read(&page, at).map_err(|error| {
            wrong(format!("this is not the text format of Prometheus: {error}"))
        })?;
        if scrape.is_of_use() {
            return Ok(scrape);
        }
        let why = match scrape.samples() {
            0 => format!("there are no metrics in the answer; {PATHS}"),
            n => format!(
                "none of its {n} samples is about retries: there is neither redial_attempts_total nor \
                 envoy_cluster_upstream_rq_total nor another that is read here. Does the program have a meter, \
                 and has it made a call?"
            ),
        };
        Err(wrong(why))
    }

    async fn page(&self) -> Result<String, String> {
        let client = Client::builder().no_proxy().build().map_err(|error| chain(&error))?;
        let got = client.get(self.url.clone()).header(ACCEPT, ACCEPTED).send().await;
        let answer = got.map_err(|error| self.unreached(&error))?;
        let status = answer.status();
        match status.as_u16() {
            200..=299 => {}
            401 | 403 => {
                return Err(format!(
                    "answers {status}: write http://USER:PASSWORD@HOST… if it has a password"
                ));
            }
            404 => return Err(format!("answers {status}; {PATHS}")),
            _ => return Err(format!("answers {status}: see what is wrong with it")),
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        let body = body(answer).await?;
        let page = String::from_utf8(body)
            .map_err(|_| format!("answers with something that is no text ({kind}); {PATHS}"))?;
        let start = page.trim_start();
        if start.starts_with('<') {
            return Err(format!("answers with a web page; {PATHS}"));
        }
        if kind.contains("json") || start.starts_with('[') {
            return Err(format!("answers with JSON; {PATHS}"));
        }
        Ok(page)
    }

    fn unreached(&self, error: &reqwest::Error) -> String {
        let hint = match self.url.scheme() {
            "https" => "if it has no TLS, write http://",
            _ => "see whether it runs, and whether this is its port",
        };
        format!("cannot get it: {}; {hint}", chain(error))
    }
}

/// The body, up to the longest that is read.
async fn body(mut answer: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(|error| {
        format!("the answer breaks off after {} bytes: {}", body.len(), chain(&error))
    })? {
        if body.len() + part.len() > LARGEST_PAGE {
            return Err(
                "answers with more than 16 MiB; Envoy takes ?usedonly&filter=upstream_rq behind its address".into(),
            );
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

fn slow() -> String {
    format!("has not answered within {PATIENCE:?}: see whether it hangs, or another port is meant")
}

/// An error of the client says little; what it came from says more.
fn chain(error: &reqwest::Error) -> String {
    let mut last: &dyn Error = error;
    let mut said = Vec::new();
    while let Some(source) = last.source() {
        last = source;
        said.push(source.to_string());
    }
    if said.is_empty() { error.to_string() } else { said.join(": ") }
}
