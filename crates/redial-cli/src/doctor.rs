//! `redial doctor`: is there a storm, now, and whose?
//!
//! A person asks this during an incident. The answer is a sentence for each upstream, what to do about it, and what two
//! looks at some counters cannot tell.

mod fetch;
mod show;

use std::io::Write;
use std::time::Duration;

use redial_cli::diagnose::diagnose;
use redial_core::storm::Level;
use tokio::runtime::Builder;

use crate::duration;
use crate::failed::Failed;
use crate::text::sanitise;
use fetch::Endpoint;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);

/// Say whether there is a retry storm, whose retries it is, and what to do
///
/// Scrapes a Prometheus endpoint twice and judges what was counted in between.
#[derive(clap::Args)]
#[command(after_help = "\
Read are the metrics of Redial (clients, servers, queues, fleet budgets) and, as far as they go, those of Envoy
at /stats/prometheus. It warns from 1.5 attempts for a request of a user on, whoever makes them; 2 are a storm, and
4 a critical one.

With --baseline it first looks for that long at what is usual, so that a surge that begins then can be told from a
storm. What it could not know it says.

Exit codes: 0 for no storm that it could see, 1 from 1.5 attempts on, 2 if the endpoint cannot be read.

Examples:
  redial doctor http://localhost:9000/metrics
  redial doctor http://localhost:9901/stats/prometheus --for 30s    an Envoy's admin port
  redial doctor http://localhost:9000/metrics --baseline 1m         is it more than usual?
  redial doctor http://localhost:9000/metrics --json | jq '.subjects[] | {name, level, multiplier}'")]
pub(crate) struct Args {
    /// Where the metrics are
    #[arg(value_name = "METRICS-URL", value_parser = Endpoint::read)]
    endpoint: Endpoint,
    /// How long to look, from 100ms to 1h
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = span)]
    span: Duration,
    /// How long to look before that, to know what is usual
    #[arg(long, value_name = "TIME", value_parser = span)]
    baseline: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn span(text: &str) -> Result<Duration, String> {
    let span = duration::read(text).map_err(|error| error.to_string())?;
    let fits = (SHORTEST..=LONGEST).contains(&span);
    fits.then_some(span).ok_or_else(|| "must be from 100ms to 1h".to_owned())
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let diagnosis = runtime.block_on(async {
        let first = args.endpoint.scrape().await?;
        let (before, from) = match args.baseline {
            Some(baseline) => {
                wait(baseline, "what is usual").await;
                (Some(first), args.endpoint.scrape().await?)
            }
            None => (None, first),
        };
        wait(args.span, "what happens now").await;
        let to = args.endpoint.scrape().await?;
        Ok::<_, Failed>(diagnose(before.as_ref(), &from, &to))
    })?;
    let place = sanitise(args.endpoint.shown());
    if args.json {
        writeln!(out, "{}", show::json(&place, &diagnosis))?;
    } else {
        show::words(&place, &diagnosis, out)?;
    }
    out.flush()?;
    if diagnosis.level().is_some_and(|level| level > Level::Calm) {
        Err(Failed::Reported(1))
    } else {
        Ok(())
    }
}

#[allow(clippy::print_stderr, reason = "stdout has the answer and nothing else")]
async fn wait(span: Duration, why: &str) {
    eprintln!("redial: looking for {span:?} at {why}");
    tokio::time::sleep(span).await;
}
