//! A secret that two receivers share lets each of them forge webhooks to the other. So each receiver has its own secrets.

use std::fmt;
use std::str::FromStr;

use reqwest::Url;

use super::{InvalidDelivery, Secret};

/// The most secrets of one receiver, so that the header with their signatures has a bound.
const MAX_SECRETS: usize = 8;

/// The secrets that sign the deliveries to each receiver.
///
/// A delivery to a URL without an entry is not sent: its job waits, without being charged an attempt, until a worker has a secret
/// for it.
///
/// In text, each line has a receiver and its secrets; `unsigned` stands for no secrets, and `*` for every receiver without a
/// line of its own. A `#` starts a comment.
///
/// ```
/// use redial_queue::delivery::Secrets;
///
/// let secrets: Secrets = "
/// https://hooks.example/orders  whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw  # everything below this path, too
/// https://hooks.example/stock   whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
/// http://localhost:8080/        unsigned
/// ".parse().unwrap();
/// ```
#[derive(Clone, Default)]
pub struct Secrets {
    /// No receiver is listed twice.
    receivers: Vec<(Url, Vec<Secret>)>,
    others: Option<Vec<Secret>>,
}

impl Secrets {
    /// No secrets for any receiver.
    pub fn new() -> Self {
        Self::default()
    }

    /// Signs deliveries to this URL, and to everything below its path, with these secrets. If several entries match, the one with
    /// the longest path counts. Each secret adds a signature: to rotate a secret, list the old and the new one. Without secrets,
    /// deliveries are sent unsigned.
    ///
    /// # Errors
    ///
    /// The URL is invalid for deliveries, has a query, or is a duplicate, or there are too many secrets.
    pub fn receiver(
        mut self,
        url: &str,
        secrets: impl IntoIterator<Item = Secret>,
    ) -> Result<Self, InvalidDelivery> {
        let url = super::request::parse_url(url)?;
        if url.query().is_some() {
            let why = "the URL of a receiver has a query: use the path only";
            return Err(InvalidDelivery::new(why));
        }
        if self.receivers.iter().any(|(known, _)| is_below(known, &url) && is_below(&url, known)) {
            return Err(InvalidDelivery::new(format!("duplicate receiver {url}")));
        }
        self.receivers.push((url, collect(secrets)?));
        Ok(self)
    }

    /// Signs deliveries to every other receiver with these secrets. Each of these receivers can then forge webhooks to the
    /// others: use it for receivers that trust each other.
    ///
    /// # Errors
    ///
    /// It was called before, or there are too many secrets.
    pub fn others(
        mut self,
        secrets: impl IntoIterator<Item = Secret>,
    ) -> Result<Self, InvalidDelivery> {
        if self.others.replace(collect(secrets)?).is_some() {
            return Err(InvalidDelivery::new("duplicate entry for all other receivers"));
        }
        Ok(self)
    }

    /// Whether receivers without an entry share a secret.
    pub fn are_shared(&self) -> bool {
        self.others.as_ref().is_some_and(|secrets| !secrets.is_empty())
    }

    /// The secrets for a delivery to this URL; `None` if no entry matches.
    pub(super) fn of(&self, url: &Url) -> Option<&[Secret]> {
        let matching = self.receivers.iter().filter(|(receiver, _)| is_below(receiver, url));
        let closest = matching.max_by_key(|(receiver, _)| receiver.path().len());
        closest.map(|(_, secrets)| secrets).or(self.others.as_ref()).map(Vec::as_slice)
    }
}

fn collect(secrets: impl IntoIterator<Item = Secret>) -> Result<Vec<Secret>, InvalidDelivery> {
    let secrets: Vec<_> = secrets.into_iter().take(MAX_SECRETS + 1).collect();
    if secrets.len() > MAX_SECRETS {
        return Err(InvalidDelivery::new(format!("a receiver has at most {MAX_SECRETS} secrets")));
    }
    Ok(secrets)
}

/// Whether a URL is the receiver's, or below its path.
fn is_below(receiver: &Url, url: &Url) -> bool {
    let path = receiver.path().trim_end_matches('/');
    receiver.origin() == url.origin()
        && url
            .path()
            .strip_prefix(path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl FromStr for Secrets {
    type Err = InvalidDelivery;

    fn from_str(text: &str) -> Result<Self, InvalidDelivery> {
        let mut secrets = Self::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace().peekable();
            let receiver = match words.peek() {
                None => continue,
                Some(word) if word.starts_with(Secret::PREFIX) => "*",
                Some(_) => words.next().unwrap_or_default(),
            };
            let added = read(words).and_then(|signers| match receiver {
                "*" => secrets.others(signers),
                url => secrets.receiver(url, signers),
            });
            secrets = added.map_err(|why| InvalidDelivery::new(format!("line {number}: {why}")))?;
        }
        if secrets.receivers.is_empty() && secrets.others.is_none() {
            return Err(InvalidDelivery::new(
                "no secret found; write a line such as `https://host/path whsec_…`",
            ));
        }
        Ok(secrets)
    }
}

fn read<'a>(words: impl Iterator<Item = &'a str>) -> Result<Vec<Secret>, InvalidDelivery> {
    let words: Vec<&str> = words.collect();
    match &words[..] {
        [] => Err(InvalidDelivery::new("missing secret; to send unsigned, write `unsigned`")),
        ["unsigned"] => Ok(Vec::new()),
        words => words.iter().map(|word| Secret::new(word)).collect(),
    }
}

/// Shows receivers, but not their secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let receivers: Vec<&str> = self.receivers.iter().map(|(url, _)| url.as_str()).collect();
        f.debug_struct("Secrets").field("receivers", &receivers).finish_non_exhaustive()
    }
}
