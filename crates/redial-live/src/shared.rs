use redial_core::{Span, Time};
use redial_sim::{Scenario, Stream};

use crate::clock::Clock;
use crate::fault::Switch;
use crate::lag::Lag;
use crate::record::Record;
use crate::setting::LiveScenario;

const PROBE_INTERVAL: Span = Span::from_millis(5);
/// The streams before this one are those of the server and of the arrivals.
const FIRST_CALLER: u64 = 16;

/// The state that server and callers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) setting: LiveScenario,
    pub(crate) clock: Clock,
    pub(crate) record: Record,
    pub(crate) lag: Lag,
    pub(crate) switch: Switch,
}

impl Shared {
    pub(crate) fn new(setting: LiveScenario) -> Self {
        let record = if setting.is_endless { Record::none() } else { Record::default() };
        let (lag, switch) = (Lag::default(), Switch::default());
        Self { setting, clock: Clock::start(), record, lag, switch }
    }

    pub(crate) fn scenario(&self) -> &Scenario {
        self.setting.scenario()
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Whether calls begin at this time.
    pub(crate) fn is_running(&self, at: Time) -> bool {
        self.setting.is_endless || at < self.scenario().end()
    }

    /// Waits, and records the lag.
    pub(crate) async fn wait_until(&self, at: Time) {
        self.clock.sleep_until(at.into()).await;
        if !self.setting.is_endless {
            self.lag.woke(at, self.now());
        }
    }

    /// Wakes every few milliseconds, so that lag is noticed while callers wait inside the timers of a retry
    /// library.
    pub(crate) async fn probe(&self) {
        if self.setting.is_endless {
            return std::future::pending().await;
        }
        let mut at = self.now();
        loop {
            at = (at + PROBE_INTERVAL).max(self.now());
            self.wait_until(at).await;
        }
    }

    /// The random numbers of one caller.
    pub(crate) fn stream(&self, caller: u64) -> Stream {
        Stream::new(self.setting.seed).of(FIRST_CALLER + caller)
    }
}
