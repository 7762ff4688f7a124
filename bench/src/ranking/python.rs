//! Libraries for Python, in a process of their own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use redial_core::Time;
use redial_live::{LiveRun, LiveScenario, serve};
use serde::{Deserialize, Serialize};

use crate::pip::installed;

/// Pinned, because figures of other versions may differ.
pub(super) const PACKAGES: [&str; 7] = [
    "aiohttp==3.14.5",
    "backoff==2.2.1",
    "botocore==1.44.3",
    "pyfailsafe==0.6.0",
    "stamina==26.1.0",
    "tenacity==9.2.1",
    "urllib3==2.8.0",
];
const SCRIPT: &str = include_str!("callers.py");

/// What clients have to know before the start.
#[derive(Serialize)]
struct Known {
    instances: u32,
    deadline: f64,
    timeout: Option<f64>,
}

#[derive(Serialize)]
struct Plan {
    host: String,
    port: u16,
    /// The time since the start of the server, in nanoseconds.
    now: u64,
    /// When each call begins, and its instance.
    begins: Vec<(u64, u32)>,
}

#[derive(Deserialize)]
struct Outcome {
    /// When each call was to begin, when it ended, and whether it succeeded.
    calls: Vec<(u64, u64, bool)>,
    /// When wake-ups were scheduled, and when they happened.
    woke: Vec<(u64, u64)>,
    /// Attempts without a connection.
    broken: u32,
}

/// Runs a scenario with the callers of this library.
pub(super) fn run(
    library: &str,
    setting: LiveScenario,
    deadline: Duration,
    timeout: Option<Duration>,
) -> Result<LiveRun, String> {
    let failed = |error: std::io::Error| format!("python3: {error}");
    let mut python = Command::new("python3");
    let known = serde_json::json!(Known {
        instances: setting.scenario().clients.instances,
        deadline: deadline.as_secs_f64(),
        timeout: timeout.map(|timeout| timeout.as_secs_f64()),
    });
    python.args(["-c", SCRIPT, library, &known.to_string()]);
    python.env("PYTHONPATH", installed(&PACKAGES)?);
    let mut python = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let (Some(mut stdin), Some(stdout)) = (python.stdin.take(), python.stdout.take()) else {
        return Err("python3 has no pipes".to_owned());
    };
    let mut printed = BufReader::new(stdout);
    // After its imports, because the clock of the scenario starts with the server.
    printed.read_line(&mut String::new()).map_err(failed)?;
    let serving = serve(setting).map_err(|error| error.to_string())?;
    let plan = Plan {
        host: serving.address().ip().to_string(),
        port: serving.address().port(),
        begins: serving
            .begins()
            .into_iter()
            .map(|(at, instance)| (at.as_nanos(), instance))
            .collect(),
        now: serving.now().as_nanos(),
    };
    writeln!(stdin, "{}", serde_json::json!(plan)).map_err(failed)?;
    let mut text = String::new();
    printed.read_to_string(&mut text).map_err(failed)?;
    let status = python.wait().map_err(failed)?;
    let outcome: Outcome = serde_json::from_str(&text).map_err(|error| {
        format!("python3 ended with {status}, and its result is invalid: {error}")
    })?;
    let at = Time::from_nanos;
    for (started, ended, succeeded) in outcome.calls {
        serving.record().begun(at(started));
        serving.record().ended(at(started), at(ended), succeeded);
    }
    outcome.woke.into_iter().for_each(|(wanted, now)| serving.lag().woke(at(wanted), at(now)));
    (0..outcome.broken).for_each(|_| serving.record().broken());
    Ok(serving.finish())
}
