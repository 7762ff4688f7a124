//! One sentence that says what the charts show.

use redial_sim::Scenario;
use redial_sim::report::{count, milliseconds, percent, ratio};

use super::answer::{Figures, capacity};

/// What is seen, for the policies by name.
pub(crate) fn sentence(scenario: &Scenario, results: &[(&str, &Figures)]) -> String {
    let parts: Vec<String> = match scenario.rate() {
        Some(_) => {
            results.iter().map(|(name, figures)| at_a_rate(scenario, name, figures)).collect()
        }
        None => results.iter().map(|(name, figures)| at_once(scenario, name, figures)).collect(),
    };
    if parts.is_empty() {
        return "There is no policy to simulate.".to_owned();
    }
    let after = match scenario.fault_span() {
        Some((start, end)) => {
            format!("After {} of trouble, ", milliseconds((end - start).as_millis_f64()))
        }
        None => String::new(),
    };
    format!("{after}{}.", parts.join("; "))
}

fn at_a_rate(scenario: &Scenario, name: &str, figures: &Figures) -> String {
    let attempts = format!("{} attempts for each call", ratio(figures.amplification));
    if figures.success_before.is_some_and(|before| before < 0.5) {
        let takes = milliseconds(scenario.backend.service.mean() / 1e6);
        return format!(
            "{name} fails even before it, because a request takes {takes} and its callers give up sooner"
        );
    }
    let end = figures.success_at_end.map(percent).unwrap_or_else(|| "–".to_owned());
    match figures.recover_ms {
        _ if figures.collapsed => {
            format!(
                "{name} sends {attempts} and does not recover: at the end {end} of the calls succeed"
            )
        }
        Some(ms) if ms < 1.0 => format!("{name} sends {attempts} and recovers at once"),
        Some(ms) => format!("{name} sends {attempts} and recovers within {}", milliseconds(ms)),
        None => format!("{name} sends {attempts}, and at the end {end} of the calls succeed"),
    }
}

/// All callers begin at once, so the wave that comes back is what counts.
fn at_once(scenario: &Scenario, name: &str, figures: &Figures) -> String {
    let peak = count(figures.peak);
    let beside = match capacity(scenario) {
        Some(capacity) if figures.peak > capacity => {
            format!(", {} times what the backend can serve", ratio(figures.peak / capacity))
        }
        Some(_) => ", which the backend can serve".to_owned(),
        None => String::new(),
    };
    format!(
        "{name} comes back with up to {peak} requests a second{beside}; {} of the calls succeed",
        percent(figures.success)
    )
}
