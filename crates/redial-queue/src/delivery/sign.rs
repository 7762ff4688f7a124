//! Any client can post to the receiver of a webhook. With the signatures of Standard Webhooks the receiver can verify the sender
//! and the time: a MAC over the key, the time of the attempt and the body.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;

use super::InvalidDelivery;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// A secret shared with the receiver of deliveries.
///
/// ```
/// use redial_queue::delivery::Secret;
///
/// let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
/// let body = br#"{"test": 2432232314}"#;
/// let signature = secret.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
/// assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
/// ```
#[derive(Clone)]
pub struct Secret(Hmac<Sha256>);

impl Secret {
    pub(super) const PREFIX: &str = "whsec_";

    /// Parses the format of Standard Webhooks: `whsec_` and 24 to 64 bytes in base64.
    ///
    /// # Errors
    ///
    /// It has another format.
    pub fn new(secret: &str) -> Result<Self, InvalidDelivery> {
        let wrong =
            || InvalidDelivery::new("invalid secret: use whsec_ and 24 to 64 bytes in base64");
        let text = secret.strip_prefix(Self::PREFIX).ok_or_else(wrong)?;
        let bytes = STANDARD.decode(text).map_err(|_| wrong())?;
        if !(24..=64).contains(&bytes.len()) {
            return Err(wrong());
        }
        Hmac::new_from_slice(&bytes).map(Self).map_err(|_| wrong())
    }

    /// The `webhook-signature` of a delivery with this `webhook-id`, `webhook-timestamp` and body.
    pub fn signature(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// Adds the three headers, with a signature by each secret. `None` if the key cannot be the value of a header.
pub(super) fn sign(
    secrets: &[Secret],
    headers: &mut HeaderMap,
    key: &str,
    now: SystemTime,
    body: &[u8],
) -> Option<()> {
    let id = identifier(key);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let signatures: Vec<_> =
        secrets.iter().map(|secret| secret.signature(&id, now, body)).collect();
    headers.insert(SIGNATURE, HeaderValue::try_from(signatures.join(" ")).ok()?);
    headers.insert(TIMESTAMP, HeaderValue::from(now));
    headers.insert(ID, HeaderValue::try_from(id).ok()?);
    Some(())
}

/// The key as an identifier of Standard Webhooks, where a dot separates it from the time in the signed text. Different keys have
/// different identifiers.
fn identifier(key: &str) -> String {
    key.replace('%', "%25").replace('.', "%2E")
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
