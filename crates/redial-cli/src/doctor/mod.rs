//! `redial doctor`: is there a storm now, and which layer causes it?
//!
//! An operator asks this during an incident. The answer is a sentence for each upstream, what to do about it, and what
//! two scrapes of some counters cannot show.

mod fetch;
mod show;

use std::io::Write;
use std::time::Duration;

use redial_cli::diagnose::diagnose;
use redial_core::Span;
use redial_core::storm::Level;
use tokio::runtime::Builder;

use crate::duration;
use crate::failed::Failed;
use crate::terminal::Terminal;
use crate::text::sanitise;
use fetch::Endpoint;

const MIN_SPAN: Duration = Duration::from_millis(100);
const MAX_SPAN: Duration = Duration::from_secs(3600);

/// Detect a retry storm, the layer that causes it, and what to do
///
/// Scrapes a Prometheus endpoint twice and judges the changes.
#[derive(clap::Args)]
#[command(after_help = "\
Reads the metrics of Redial (clients, servers, queues, fleet budgets), and the retry metrics of Envoy at \
/stats/prometheus. It warns from 1.5 attempts per user request, counting the retries of all layers; 2 is a storm, and \
4 a critical storm.

The address that `redial up` prints is the URL of its metrics, too: its token is sent, and not printed.

With --baseline it first measures the usual traffic for that long, to tell a surge that begins afterwards from a storm. \
It reports what it could not determine.

Exit codes: 0 no storm detected, 1 from 1.5 attempts per request, 2 the endpoint cannot be read.

Examples:
  # a worker with metrics, which waits for jobs
  export REDIAL_STORE=jobs.db
  redial queue add --payload hello
  redial queue work --exec 'cat > out' --metrics 127.0.0.1:9464 2> log &
  # measure for a second, as soon as it listens
  redial run -- redial doctor http://127.0.0.1:9464/metrics --for 1s
  # compare with the usual traffic
  redial doctor http://127.0.0.1:9464/metrics --for 1s --baseline 2s
  # for a program
  redial doctor http://127.0.0.1:9464/metrics --for 1s --json > doctor.json
  kill $!")]
pub(crate) struct Args {
    /// The URL of the metrics
    #[arg(value_name = "METRICS-URL", value_parser = Endpoint::read)]
    endpoint: Endpoint,
    /// How long to measure, from 100ms to 1h
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = span)]
    span: Duration,
    /// How long to measure the usual traffic before that
    #[arg(long, value_name = "TIME", value_parser = span)]
    baseline: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn span(text: &str) -> Result<Duration, String> {
    let span = duration::read(text).map_err(|error| error.to_string())?;
    let fits = (MIN_SPAN..=MAX_SPAN).contains(&span);
    let wrong = || format!("must be from {} to {}", Span::from(MIN_SPAN), Span::from(MAX_SPAN));
    fits.then_some(span).ok_or_else(wrong)
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let diagnosis = runtime.block_on(async {
        let first = args.endpoint.scrape().await?;
        let (before, from) = match args.baseline {
            Some(baseline) => {
                wait(baseline, "the usual traffic").await;
                (Some(first), args.endpoint.scrape().await?)
            }
            None => (None, first),
        };
        wait(args.span, "the traffic now").await;
        let to = args.endpoint.scrape().await?;
        Ok::<_, Failed>(diagnose(before.as_ref(), &from, &to))
    })?;
    let place = sanitise(args.endpoint.shown());
    if args.json {
        writeln!(out, "{}", show::json(&place, &diagnosis))?;
    } else {
        show::words(&place, &diagnosis, Terminal::of_stdout().prose_width(), out)?;
    }
    out.flush()?;
    if diagnosis.level().is_some_and(|level| level > Level::Calm) {
        Err(Failed::Reported(1))
    } else {
        Ok(())
    }
}

#[allow(clippy::print_stderr, reason = "stdout has the answer and nothing else")]
async fn wait(span: Duration, what: &str) {
    eprintln!("redial: measuring {what} for {}", duration::text(span));
    tokio::time::sleep(span).await;
}
