//! The sliders, and what each sets in a scenario. The values that a visitor sends are checked here, once.

use std::collections::BTreeMap;

use redial_core::Span;
use redial_sim::Scenario;
use redial_sim::report::{count, milliseconds};
use redial_sim::scenario::{BuiltIn, Clients, HowLong, MOST_CALLERS, Set};
use serde::{Deserialize, Serialize};

use super::story::{Size, Story};
use crate::error::ApiError;

/// A slider of a story.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct Slider {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    #[serde(flatten)]
    pub(crate) range: SliderRange,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(crate) enum SliderRange {
    Number { least: f64, most: f64, default: f64, unit: &'static str, log: bool, whole: bool },
    Choice { options: &'static [&'static str], default: &'static str },
}

/// The value of a slider.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(untagged)]
pub(crate) enum Position {
    Number(f64),
    Choice(String),
}

/// The sliders that a visitor has moved, by name.
pub(crate) type Positions = BTreeMap<String, Position>;

const JITTERS: &[&str] = &["none", "equal", "full", "decorrelated"];

const fn number(
    name: &'static str,
    label: &'static str,
    unit: &'static str,
    [least, most, default]: [f64; 3],
) -> Slider {
    Slider {
        name,
        label,
        range: SliderRange::Number { least, most, default, unit, log: true, whole: true },
    }
}

pub(super) const fn traffic(default: f64) -> Slider {
    number("traffic", "Traffic", "/s", [1.0, 100_000_000.0, default])
}

pub(super) const fn clients(default: f64) -> Slider {
    number("clients", "Clients (processes)", "", [1.0, MOST_CALLERS as f64, default])
}

/// Callers that all begin at the same moment.
pub(super) const fn callers(default: f64) -> Slider {
    number("clients", "Clients", "", [10.0, MOST_CALLERS as f64, default])
}

const fn percent(name: &'static str, label: &'static str, range: [f64; 3]) -> Slider {
    let [least, most, default] = range;
    let range = SliderRange::Number { least, most, default, unit: "%", log: false, whole: true };
    Slider { name, label, range }
}

pub(super) const fn load(default: f64) -> Slider {
    percent("load", "Load", [10.0, 120.0, default])
}

/// Where the backend keeps its size, and the traffic changes with the load.
pub(super) const fn small_load(default: f64) -> Slider {
    percent("load", "Load", [10.0, 90.0, default])
}

pub(super) const fn outage(label: &'static str, default: f64, least: f64, most: f64) -> Slider {
    number("outage", label, "ms", [least, most, default])
}

pub(super) const fn attempts(default: f64) -> Slider {
    let range =
        SliderRange::Number { least: 1.0, most: 20.0, default, unit: "", log: false, whole: true };
    Slider { name: "attempts", label: "Attempts", range }
}

pub(super) const fn timeout(default: f64) -> Slider {
    number("timeout", "Timeout of an attempt", "ms", [10.0, 30_000.0, default])
}

pub(super) const fn jitter(default: &'static str) -> Slider {
    Slider {
        name: "jitter",
        label: "Jitter",
        range: SliderRange::Choice { options: JITTERS, default },
    }
}

pub(super) const fn budget(default: f64) -> Slider {
    percent("budget", "Retry budget", [0.0, 100.0, default])
}

impl Story {
    /// The least and the most of a slider that has numbers.
    pub(super) fn range(&self, name: &str) -> Option<(f64, f64)> {
        let slider = self.sliders.iter().find(|slider| slider.name == name)?;
        match slider.range {
            SliderRange::Number { least, most, .. } => Some((least, most)),
            SliderRange::Choice { .. } => None,
        }
    }
}

/// A story with its sliders, as parameters of its scenario.
pub(crate) struct Setting {
    pub(crate) story: &'static Story,
    pub(crate) text: &'static str,
    /// As for `redial sim --set`.
    pub(crate) sets: Vec<String>,
    pub(crate) scenario: Scenario,
    /// What is not as the sliders say.
    pub(crate) notes: Vec<String>,
}

impl Setting {
    pub(crate) fn new(story: &'static Story, positions: &Positions) -> Result<Self, ApiError> {
        let text = BuiltIn::find(story.scenario).map_or("", |it| it.text);
        let read = |sets: &[Set]| {
            let scenario = Scenario::read(text, sets);
            scenario.map_err(|problem| ApiError::bad_request(problem.to_string()))
        };
        let moved = Moved { story, scenario: read(&[])?, positions: moved(story, positions)? };
        let (sets, notes) = moved.sets();
        let scenario = read(&parsed(&sets)?)?;
        Ok(Self { story, text, sets, scenario, notes })
    }

    pub(crate) fn parsed_sets(&self) -> Result<Vec<Set>, ApiError> {
        parsed(&self.sets)
    }
}

fn parsed(sets: &[String]) -> Result<Vec<Set>, ApiError> {
    let sets = sets.iter().map(|set| Set::read(set));
    sets.collect::<Result<_, _>>().map_err(|problem| ApiError::bad_request(problem.to_string()))
}

/// The sliders that are not at their default. An unknown name or a value out of range is an error.
fn moved(
    story: &'static Story,
    positions: &Positions,
) -> Result<BTreeMap<&'static str, Position>, ApiError> {
    let mut moved = BTreeMap::new();
    for (name, position) in positions {
        let slider = story.sliders.iter().find(|slider| slider.name == name);
        let slider = slider.ok_or_else(|| {
            let known: Vec<&str> = story.sliders.iter().map(|slider| slider.name).collect();
            let known = known.join(", ");
            ApiError::bad_request(format!("{} has no slider {name:?}, only {known}", story.name))
        })?;
        match (&slider.range, position) {
            (
                &SliderRange::Number { least, most, default, whole, unit, .. },
                Position::Number(value),
            ) => {
                let value = if whole { value.round() } else { *value };
                if !(least..=most).contains(&value) {
                    return Err(ApiError::bad_request(format!(
                        "{name} is {value}, and has to be from {least} to {most} {unit}"
                    )));
                }
                if value != default {
                    moved.insert(slider.name, Position::Number(value));
                }
            }
            (SliderRange::Choice { options, default }, Position::Choice(choice)) => {
                if !options.contains(&choice.as_str()) {
                    let options = options.join(", ");
                    return Err(ApiError::bad_request(format!(
                        "{name} is {choice:?}, and has to be one of {options}"
                    )));
                }
                if choice != default {
                    moved.insert(slider.name, position.clone());
                }
            }
            (SliderRange::Number { .. }, Position::Choice(_)) => {
                return Err(ApiError::bad_request(format!("{name} has to be a number")));
            }
            (SliderRange::Choice { options, .. }, Position::Number(_)) => {
                let options = options.join(", ");
                return Err(ApiError::bad_request(format!("{name} has to be one of {options}")));
            }
        }
    }
    Ok(moved)
}

struct Moved {
    story: &'static Story,
    /// The scenario of the story, with all sliders at their defaults.
    scenario: Scenario,
    positions: BTreeMap<&'static str, Position>,
}

impl Moved {
    fn number(&self, name: &str) -> Option<f64> {
        match self.positions.get(name) {
            Some(Position::Number(value)) => Some(*value),
            _ => None,
        }
    }

    /// The parameters of the scenario, and what is not as the sliders say.
    fn sets(&self) -> (Vec<String>, Vec<String>) {
        let (mut sets, mut notes) = (Vec::new(), Vec::new());
        match self.story.backend {
            Size::WithTraffic => self.sized(&mut sets, &mut notes),
            Size::WithCallers => {
                self.fixed(&mut sets);
                self.with_callers(&mut sets, &mut notes);
            }
            Size::Fixed => self.fixed(&mut sets),
        }
        if let Some(ms) = self.number("outage") {
            sets.push(format!("{}={}", self.story.trouble, ms_text(ms)));
        }
        let shaped = format!("policy.{}", self.story.shaped);
        if let Some(attempts) = self.number("attempts") {
            sets.push(format!("{shaped}.attempts={attempts}"));
        }
        if let Some(ms) = self.number("timeout") {
            sets.push(format!("{shaped}.attempt_timeout={}", ms_text(ms)));
        }
        if let Some(Position::Choice(jitter)) = self.positions.get("jitter") {
            sets.push(format!("{shaped}.backoff.jitter={jitter}"));
        }
        if let Some(percent) = self.number("budget") {
            let ratio = percent / 100.0;
            // Without a floor, which would be one for each client.
            sets.push(format!(
                "{shaped}.budget={{ window = {{ ratio = {ratio}, floor = \"0/s\", ttl = \"10s\" }} }}"
            ));
        }
        (sets, notes)
    }

    /// A backend of fixed size.
    fn fixed(&self, sets: &mut Vec<String>) {
        if let Some(rate) = self.number("traffic") {
            sets.push(format!("rate={rate}"));
        }
        if let Some(load) = self.number("load") {
            sets.push(format!("load={}", load / 100.0));
        }
        if let Some(clients) = self.number("clients") {
            sets.push(format!("clients={clients}"));
            // Where every caller is a process, it stays so.
            let Clients { instances, arrivals, .. } = &self.scenario.clients;
            if arrivals.callers() == Some(*instances) {
                sets.push(format!("clients.instances={clients}"));
            }
        }
    }

    /// As much of the backend for each caller as in the scenario.
    fn with_callers(&self, sets: &mut Vec<String>, notes: &mut Vec<String>) {
        let Scenario { clients, backend, .. } = &self.scenario;
        let callers = clients.arrivals.callers().map(f64::from);
        let parts = self.number("clients").zip(callers).zip(backend.servers);
        let Some(((clients, callers), servers)) = parts else { return };
        let grown = |size: u32| (f64::from(size) * clients / callers).round().max(1.0);
        let (servers, queue) = (grown(servers.0), grown(backend.queue));
        sets.extend([format!("backend.servers={servers}"), format!("backend.queue={queue}")]);
        notes.push(format!(
            "the backend grows with its clients: {} servers, and {} places in its queue",
            count(servers),
            count(queue)
        ));
    }

    /// A backend with the capacity for the traffic at the load. What is not moved is as in the scenario.
    fn sized(&self, sets: &mut Vec<String>, notes: &mut Vec<String>) {
        let Scenario { backend, clients, duration, .. } = &self.scenario;
        let usual_rate = self.scenario.rate().unwrap_or_default();
        let usual_service_ms = backend.service.mean() / 1e6;
        let usual_clients = f64::from(clients.instances);
        let (rate, load) = (self.number("traffic"), self.number("load"));
        if rate.is_some() || load.is_some() {
            let rate = rate.unwrap_or(usual_rate);
            let capacity_for_one = load.map_or(backend.capacity() / usual_rate, |it| 100.0 / it);
            let capacity = rate * capacity_for_one;
            let exact = capacity * usual_service_ms / 1e3;
            let servers = exact.round().max(1.0);
            // With few servers, rounding would change the load.
            let is_rounded = (servers / exact - 1.0).abs() > 0.01;
            let service_ms = if is_rounded { servers / capacity * 1e3 } else { usual_service_ms };
            let service = ms_text(service_ms);
            if is_rounded {
                notes.push(format!(
                    "a request takes {}, so that {servers} servers have this load",
                    milliseconds(service_ms)
                ));
            }
            let time = if matches!(backend.service.base, HowLong::Drawn(_)) {
                format!("{{ exponential = \"{service}\" }}")
            } else {
                service
            };
            let wanted = (f64::from(backend.queue) * capacity / backend.capacity()).round();
            let queue = wanted.clamp(1.0, LONGEST_QUEUE);
            if wanted > LONGEST_QUEUE {
                notes.push(format!(
                    "the backend's queue has {LONGEST_QUEUE:.0} places instead of {wanted:.0}, the most that a scenario allows"
                ));
            }
            sets.extend([
                format!("rate={rate}"),
                format!("backend.servers={servers}"),
                format!("backend.service={time}"),
                format!("backend.queue={queue}"),
            ]);
        }
        let calls = rate.unwrap_or(usual_rate) * duration.as_nanos_f64() / 1e9;
        match self.number("clients").unwrap_or(usual_clients) {
            // Each makes one call or none, which is a new client for every call.
            clients if clients > calls => {
                notes.push("there are more clients than calls: each makes one call".to_owned());
                sets.push("clients.lifetime=1".to_owned());
            }
            clients if clients != usual_clients => sets.push(format!("clients={clients}")),
            _ => {}
        }
    }
}

/// The longest queue of a scenario.
const LONGEST_QUEUE: f64 = 1e8;

pub(super) fn ms_text(ms: f64) -> String {
    Span::from_nanos_f64((ms * 1e6).round()).to_string()
}
