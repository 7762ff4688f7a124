//! What is configured where, is it safe, and what would a change do? The policies of the sidecar's file, or the presets, with
//! the findings of a review. The page simulates a change with the playground, in the setting of the file.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use redial_core::{Policy, Preset, Rate};
use redial_policy::file::{File, Named, Route, Setting};
use redial_policy::rules::admit::per_second;
use redial_policy::{Format, Reviewed};
use serde::{Deserialize, Serialize};

use crate::about::about;
use crate::app::App;
use crate::body::Body;
use crate::error::ApiError;
use crate::playground::toml_of;
use crate::review::{self, Remark};

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/policies", get(list)).route("/policies/check", post(check))
}

/// The policies, and the setting that they run in.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
struct Configured {
    /// Whether they are those of a file, and not the presets.
    is_file: bool,
    policies: Vec<ConfiguredPolicy>,
    /// The setting as positions of the playground's sliders.
    sliders: HashMap<&'static str, f64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
struct ConfiguredPolicy {
    name: String,
    /// The policy as a file.
    toml: String,
    /// What it does, in one line.
    about: String,
    /// The upstreams and routes that use it.
    used_by: Vec<String>,
    remarks: Vec<Remark>,
}

async fn list(State(app): State<Arc<App>>) -> Json<Configured> {
    let file = app.proxy.as_ref().map(|proxy| proxy.file());
    Json(match file {
        Some(file) => of_file(&file),
        None => Configured {
            is_file: false,
            policies: of_file(&presets()).policies,
            sliders: HashMap::new(),
        },
    })
}

fn presets() -> File {
    let named = |preset: Preset| Named {
        name: preset.name().to_owned(),
        policy: preset.into(),
        setting: Setting::default(),
    };
    File { policies: Preset::ALL.map(named).to_vec(), ..File::default() }
}

fn of_file(file: &File) -> Configured {
    // Upstreams without a policy have the default one, which the file need not contain.
    let standard = || Named {
        name: Preset::Standard.name().to_owned(),
        policy: Policy::standard(),
        setting: Setting::default(),
    };
    let is_default = file.upstreams.iter().any(|upstream| upstream.policy.is_none());
    let has_standard = file.policy(Preset::Standard.name()).is_some();
    let mut file = file.clone();
    if is_default && !has_standard {
        file.policies.push(standard());
    }
    // By name, or the review would find the default unused.
    for upstream in &mut file.upstreams {
        upstream.policy.get_or_insert_with(|| Preset::Standard.name().to_owned());
    }
    let reviewed = Reviewed::of("policies", &file.to_toml(), Format::Redial);
    let remarks = |name: &str| {
        let found = reviewed.found.iter().find(|found| found.name == name);
        let findings = reviewed.findings.iter().filter(|(finding, _)| {
            found.is_some_and(|found| finding.policy == found.places.whole())
        });
        // The text that was reviewed is not the one that the visitor knows, so lines would mislead.
        findings.map(|(finding, _)| Remark::finding(finding, None)).collect()
    };
    let policies = file.policies.iter().map(|named| ConfiguredPolicy {
        name: named.name.clone(),
        toml: toml_of(&named.policy),
        about: about(&named.policy),
        used_by: users(&file, &named.name),
        remarks: remarks(&named.name),
    });
    Configured { is_file: true, policies: policies.collect(), sliders: sliders(&file.setting) }
}

/// The upstreams and routes that use a policy.
fn users(file: &File, name: &str) -> Vec<String> {
    let default = Preset::Standard.name();
    let upstreams = file
        .upstreams
        .iter()
        .filter(|upstream| upstream.policy.as_deref().unwrap_or(default) == name);
    let upstreams = upstreams.map(|upstream| format!("upstream {}", upstream.name));
    let routes = file.routes.iter().filter(|route| route.policy == name).map(route_text);
    upstreams.chain(routes).collect()
}

fn route_text(route: &Route) -> String {
    let methods =
        if route.methods.is_empty() { "every method".to_owned() } else { route.methods.join(", ") };
    let place = [&route.upstream, &route.host, &route.path].into_iter().flatten();
    let place: String = place.map(String::as_str).collect::<Vec<_>>().join(" ");
    let key = if route.key { ", with a key" } else { "" };
    format!("{methods} {place}{key}")
}

/// Within the ranges of the sliders.
fn sliders(setting: &Setting) -> HashMap<&'static str, f64> {
    let rate = |rate: Option<Rate>| rate.map(per_second).filter(|rate| *rate > 0.0);
    let (calls, capacity) = (rate(setting.calls), rate(setting.capacity));
    let load = calls.zip(capacity).map(|(calls, capacity)| calls / capacity * 100.0);
    let all = [
        ("traffic", calls.map(|calls| calls.clamp(1.0, 1e8))),
        ("clients", setting.clients.map(|clients| f64::from(clients).clamp(1.0, 25e6))),
        ("load", load.map(|load| load.round().clamp(10.0, 120.0))),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Changed {
    toml: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
struct Checked {
    remarks: Vec<Remark>,
}

/// What a review finds in a changed policy.
async fn check(Body(Changed { toml }): Body<Changed>) -> Result<Json<Checked>, ApiError> {
    Ok(Json(Checked { remarks: review::remarks(&review::review("policy", &toml)?) }))
}

/// The types of these responses and requests.
#[cfg(feature = "typescript")]
pub(crate) fn visit_types(types: &mut impl ts_rs::TypeVisitor) {
    types.visit::<Configured>();
    types.visit::<Checked>();
}
