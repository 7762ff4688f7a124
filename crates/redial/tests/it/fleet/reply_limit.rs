//! An endless reply cannot fill the memory.

use std::time::Duration;

use redial::Fleet;

use super::support::{ObservedFleet, name, retry};
use crate::fake_redis::{ENDLESS, FEW_BYTES, FakeRedis};

#[test]
fn an_endless_reply_is_not_read_into_memory() {
    for (n, reply) in ENDLESS.into_iter().enumerate() {
        let fake = FakeRedis::start(reply);
        let draft = Fleet::draft(&fake.url, &name()).timeout(Duration::from_secs(60));
        let observed = ObservedFleet::draft(draft);
        let retry = retry(&observed.fleet);
        let message = observed.loses("garbage");
        let limit = ["65536 bytes", "1024 values", "32 characters in a length"];
        assert!(limit.iter().any(|limit| message.contains(limit)), "{n}: {message}");
        let written = fake.written();
        assert!(written < FEW_BYTES, "{n}: {written} bytes were taken");
        assert_eq!(retry.run_blocking(|_| Ok::<_, std::io::Error>(7)).unwrap(), 7);
    }
}
