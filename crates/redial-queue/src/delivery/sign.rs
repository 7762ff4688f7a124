//! Anybody can post to the receiver of a webhook. The scheme of Standard Webhooks tells it who did, and when: a MAC over the
//! key, the time of the attempt and the body.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;

use super::Invalid;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// A secret that a receiver knows too.
#[derive(Clone)]
pub(super) struct Signer(Hmac<Sha256>);

impl Signer {
    /// From a secret as receivers write it: `whsec_` and 24 to 64 bytes in base64.
    pub(super) fn new(secret: &str) -> Result<Self, Invalid> {
        let wrong =
            || Invalid::new("a secret for signatures is whsec_ and 24 to 64 bytes in base64");
        let text = secret.strip_prefix("whsec_").ok_or_else(wrong)?;
        let bytes = STANDARD.decode(text).map_err(|_| wrong())?;
        if !(24..=64).contains(&bytes.len()) {
            return Err(wrong());
        }
        Hmac::new_from_slice(&bytes).map(Self).map_err(|_| wrong())
    }

    /// Writes the three headers. `None` when the key is no text for a header.
    pub(super) fn sign(
        &self,
        headers: &mut HeaderMap,
        key: &str,
        now: SystemTime,
        body: &[u8],
    ) -> Option<()> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        let mut mac = self.0.clone();
        mac.update(format!("{key}.{now}.").as_bytes());
        mac.update(body);
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        headers.insert(ID, HeaderValue::from_str(key).ok()?);
        headers.insert(TIMESTAMP, HeaderValue::from(now));
        headers.insert(SIGNATURE, HeaderValue::try_from(signature).ok()?);
        Some(())
    }
}
