//! The policies that are compared: of the story, presets, defaults of other systems, and those that the visitor writes.

use redial_core::{Policy, Preset};
use redial_policy::Reviewed;
use redial_sim::peers::Peer;
use redial_sim::{Scenario, Subject};
use serde::{Deserialize, Serialize};

use super::slider::Setting;
use crate::about::about;
use crate::error::ApiError;
use crate::review::{self, Remark};

/// The most policies side by side.
pub(crate) const MAX_POLICIES: usize = 4;

/// A policy, as a visitor names it.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyChoice {
    /// A policy of the story, `no-retry`, a preset or `peer:NAME`; with a text, any name.
    name: String,
    /// The visitor's own policy, as a file of one policy.
    #[cfg_attr(feature = "typescript", ts(optional))]
    toml: Option<String>,
}

/// A policy that can be simulated.
pub(crate) struct ResolvedPolicy {
    /// `None` if the visitor's text cannot be read.
    pub(crate) subject: Option<Subject>,
    pub(crate) name: String,
    pub(crate) remarks: Vec<Remark>,
    /// How a command names it.
    pub(crate) argument: String,
    /// Whether its policy is a file that the visitor has to save for the command.
    pub(crate) is_own: bool,
}

impl PolicyChoice {
    pub(crate) fn named(name: &str) -> Self {
        Self { name: name.to_owned(), toml: None }
    }

    pub(crate) fn resolve(&self, setting: &Setting) -> Result<ResolvedPolicy, ApiError> {
        match &self.toml {
            None => self.known(&setting.scenario),
            Some(text) => self.own(text, &setting.scenario),
        }
    }

    fn known(&self, scenario: &Scenario) -> Result<ResolvedPolicy, ApiError> {
        let subject = scenario.subject(&self.name).map_err(ApiError::bad_request)?;
        Ok(ResolvedPolicy {
            subject: Some(subject),
            name: self.name.clone(),
            remarks: Vec::new(),
            argument: self.name.clone(),
            is_own: false,
        })
    }

    /// A text that cannot be read, or has several policies, has remarks and no subject.
    fn own(&self, text: &str, scenario: &Scenario) -> Result<ResolvedPolicy, ApiError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if self.name.is_empty() || self.name.len() > 40 || !self.name.chars().all(is_plain) {
            let why = "the name of a policy has 1 to 40 letters, digits, - and _";
            return Err(ApiError::bad_request(why));
        }
        let reviewed = review::review("policy", text)?;
        let mut remarks = review::remarks(&reviewed);
        let mut subject = None;
        if reviewed.problems.is_empty() {
            let policy = only(&reviewed);
            let read = policy.and_then(|policy| Subject::new(self.name.clone(), policy));
            match read.and_then(|read| scenario.accept(read)) {
                Ok(read) => subject = Some(read),
                Err(why) => remarks.insert(0, Remark::at(why, None)),
            }
        }
        let argument = format!("{}.toml", self.name);
        Ok(ResolvedPolicy { subject, name: self.name.clone(), remarks, argument, is_own: true })
    }
}

fn only(reviewed: &Reviewed) -> Result<Policy, String> {
    match &reviewed.found[..] {
        [one] => Ok(one.policy.clone()),
        [] => Err("the file has no policy".to_owned()),
        several => {
            let names: Vec<&str> = several.iter().map(|found| found.name.as_str()).collect();
            Err(format!("the file has several policies ({}): keep one", names.join(", ")))
        }
    }
}

/// A policy as the text of a file, with all of its fields, as `redial presets NAME` prints it.
pub(crate) fn toml_of(policy: &Policy) -> String {
    // A policy that was read from text can be written as text.
    toml::to_string(policy).unwrap_or_default()
}

/// A policy that can be chosen by name.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct KnownPolicy {
    name: String,
    kind: &'static str,
    about: String,
}

/// Presets and peers.
pub(crate) fn known() -> Vec<KnownPolicy> {
    let one = KnownPolicy {
        name: "no-retry".to_owned(),
        kind: "preset",
        about: "a single attempt".to_owned(),
    };
    let presets = Preset::ALL.into_iter().map(|preset| KnownPolicy {
        name: preset.name().to_owned(),
        kind: "preset",
        about: about(&preset.into()),
    });
    let peers = Peer::all().map(|peer| KnownPolicy {
        name: format!("peer:{}", peer.name),
        kind: "peer",
        about: peer.about.to_owned(),
    });
    [one].into_iter().chain(presets).chain(peers).collect()
}
