//! What the playground can show. Each story is a scenario of the simulator, the sliders that make sense in it, and the policy
//! that they change. The stories are those of the articles that the project follows.

use serde::Serialize;

use super::slider::{self, Slider};

/// A story of the playground.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct Story {
    /// Its name in addresses.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What happens, in two sentences.
    pub(crate) text: &'static str,
    /// The article that tells it.
    pub(crate) source: &'static str,
    /// The built-in scenario of the simulator.
    pub(crate) scenario: &'static str,
    /// The policy that the sliders change.
    pub(crate) shaped: &'static str,
    /// The policies that are compared at first.
    pub(crate) policies: &'static [&'static str],
    pub(crate) sliders: &'static [Slider],
    #[serde(skip)]
    pub(crate) backend: Size,
    /// The path of the length of the trouble.
    #[serde(skip)]
    pub(crate) trouble: &'static str,
}

/// The size of the backend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Size {
    /// That of the scenario.
    Fixed,
    /// Servers and queue grow with the callers.
    WithCallers,
    /// It has the capacity for the traffic at the load.
    WithTraffic,
}

pub(crate) const STORIES: &[Story] = &[
    Story {
        name: "collapse",
        title: "The storm that does not end",
        text: "A backend is down for a second. Its callers repeat what failed, and their retries keep it down: a retry storm.",
        source: "Retries: exponential backoff, jitter",
        scenario: "collapse",
        shaped: "loop",
        policies: &["loop", "standard"],
        sliders: &[
            slider::traffic(1_000_000.0),
            slider::clients(10_000.0),
            slider::load(70.0),
            slider::outage("Outage", 1_000.0, 100.0, 10_000.0),
            slider::attempts(10.0),
            slider::timeout(150.0),
            slider::jitter("none"),
            slider::budget(0.0),
        ],
        backend: Size::WithTraffic,
        trouble: "outage.duration",
    },
    Story {
        name: "players",
        title: "25 million players, one blink",
        text: "The players of a live match ask for the next segment at the same moment, and the origin is down for 100 ms. Those that come back together are the second outage.",
        source: "Retries: exponential backoff, jitter",
        scenario: "fleet",
        shaped: "naive",
        policies: &["naive", "spread"],
        sliders: &[
            slider::callers(25_000_000.0),
            slider::outage("Outage", 100.0, 10.0, 10_000.0),
            slider::attempts(2.0),
            slider::jitter("none"),
        ],
        backend: Size::Fixed,
        trouble: "outage.duration",
    },
    Story {
        name: "controllers",
        title: "500 controllers start together",
        text: "The control plane answers 503 for 10 seconds. A loop that doubles its wait wakes all controllers together, again and again.",
        source: "Retries Without Thundering Herds",
        scenario: "controllers",
        shaped: "doubling",
        policies: &["doubling", "control-plane"],
        sliders: &[
            slider::callers(500.0),
            slider::outage("Outage", 10_000.0, 100.0, 60_000.0),
            slider::jitter("none"),
        ],
        backend: Size::WithCallers,
        trouble: "outage.duration",
    },
    Story {
        name: "default-jitter",
        title: "Is full jitter worth it?",
        text: "Callers that are spread out meet a blip of 200 ms. Here jitter changes little, because nothing was synchronised before.",
        source: "The default jitter",
        scenario: "blip",
        shaped: "full",
        policies: &["full", "none"],
        sliders: &[
            slider::traffic(500.0),
            slider::outage("Outage", 200.0, 10.0, 3_000.0),
            slider::attempts(6.0),
            slider::jitter("full"),
        ],
        backend: Size::Fixed,
        trouble: "outage.duration",
    },
    Story {
        name: "payments",
        title: "500 payments a second",
        text: "200 instances call a processor that is down for 10 seconds. Three retries are four times the load, unless a budget limits them.",
        source: "Retries & Exponential Backoff",
        scenario: "payments",
        shaped: "three-retries",
        policies: &["three-retries", "payment-processor"],
        sliders: &[
            slider::traffic(500.0),
            slider::clients(200.0),
            slider::load(40.0),
            slider::outage("Outage", 10_000.0, 100.0, 20_000.0),
            slider::attempts(4.0),
            slider::jitter("full"),
            slider::budget(0.0),
        ],
        backend: Size::WithTraffic,
        trouble: "outage.duration",
    },
    Story {
        name: "waves",
        title: "Retry waves after a blip",
        text: "A thousand callers fail at the same instant. Without jitter all of them come back together, wave after wave.",
        source: "Preventing Retry Storms",
        scenario: "blip-synchronised",
        shaped: "none",
        policies: &["none", "full"],
        sliders: &[
            slider::callers(1_000.0),
            slider::outage("Outage", 200.0, 10.0, 3_000.0),
            slider::attempts(6.0),
            slider::jitter("none"),
        ],
        backend: Size::Fixed,
        trouble: "outage.duration",
    },
    Story {
        name: "metastable",
        title: "The trigger is gone, the failure stays",
        text: "A backend loses four fifths of its servers for 10 seconds. Whether it recovers afterwards depends on the retries.",
        source: "Preventing Retry Storms",
        scenario: "capacity-loss",
        shaped: "backoff",
        policies: &["backoff", "standard-3s"],
        sliders: &[
            slider::small_load(40.0),
            slider::outage("Servers lost for", 10_000.0, 1_000.0, 40_000.0),
            slider::attempts(5.0),
            slider::timeout(3_000.0),
            slider::jitter("full"),
            slider::budget(0.0),
        ],
        backend: Size::Fixed,
        trouble: "capacity_loss.duration",
    },
];

impl Story {
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        STORIES.iter().find(|story| story.name == name)
    }
}

/// A step of the tour: a setting of the first story, and what to look at.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct TourStep {
    pub(crate) title: &'static str,
    pub(crate) text: &'static str,
    /// The sliders that are not where the story puts them.
    pub(crate) sliders: &'static [(&'static str, f64)],
}

pub(crate) const TOUR: [TourStep; 4] = [
    TourStep {
        title: "Break it",
        text: "Both backends are down for one second, in the shaded band. The loop sends up to ten requests for each call. Redial's curve stays flat: successful calls pay for retries, and while none succeeds there are almost none.",
        sliders: &[],
    },
    TourStep {
        title: "The storm stays",
        text: "Now it is down for only 300 ms, and the loop still does not recover. Its own retries keep the queue longer than callers wait, so every answer comes too late.",
        sliders: &[("outage", 300.0)],
    },
    TourStep {
        title: "Turn on the budget",
        text: "The same loop with one line more: at most one retry for every ten calls. When the backend is back, the queue drains and calls succeed again.",
        sliders: &[("outage", 300.0), ("budget", 10.0)],
    },
    TourStep {
        title: "Your numbers",
        text: "Set traffic, clients, load and timeout to those of your service, up to 100 million calls a second and 25 million clients. Then add a policy of your own.",
        sliders: &[("traffic", 100_000_000.0), ("clients", 25_000_000.0)],
    },
];
