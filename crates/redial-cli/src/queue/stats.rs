use std::io::Write;

use redial_queue::durable::{Counts, QueueSettings};
use serde_json::{Value, json};

use super::clock::Offset;
use super::location::{IfMissing, QueueArgs};
use crate::duration::{self, ms};
use crate::failed::Failed;
use crate::text::sanitise;

/// Show the number of waiting, running and dead jobs of each queue, and totals
#[derive(clap::Args)]
#[command(after_help = "\
Without --queue, all queues of the store are shown.

Examples:
  export REDIAL_STORE=jobs.db
  redial queue add --queue mail --payload hello
  redial queue stats
  redial queue stats --queue mail --json")]
pub(crate) struct Args {
    #[command(flatten)]
    queue: QueueArgs,
    /// Print a JSON object per line for each queue
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let (store, names) = match args.queue.named() {
        Some(name) => (args.queue.find().await?.store().clone(), vec![name.to_owned()]),
        None => {
            let store = args.queue.open(IfMissing::Fail).await?;
            let names = store.queues().await?;
            (store, names)
        }
    };
    let offset = Offset::of(&*store).await?;
    for name in names {
        let (counts, settings) = (store.counts(&name).await?, store.settings(&name).await?);
        if args.json {
            let mut object = object(&name, &counts, &settings);
            object["clock_offset_ms"] = offset.ms().into();
            writeln!(out, "{object}")?;
        } else {
            show(&name, &counts, &settings, out)?;
        }
    }
    if offset.matters() && !args.json {
        writeln!(out, "the store's clock is {offset}; see `redial queue clock`")?;
    }
    Ok(())
}

fn object(name: &str, counts: &Counts, settings: &QueueSettings) -> Value {
    json!({
        "queue": name,
        "paused": settings.paused,
        "rate": settings.rate.map(|rule| rule.rate.to_string()),
        "burst": settings.rate.map(|rule| rule.burst),
        "per_key": settings.per_key_number(),
        "most_dead": settings.most_dead,
        "due": counts.due,
        "later": counts.later,
        "held": counts.held,
        "running": counts.running,
        "dead": counts.dead,
        "oldest_ms": ms(counts.oldest),
        "enqueued": counts.enqueued,
        "done": counts.done,
        "retried": counts.retried,
        "died": counts.died,
        "lost": counts.lost,
        "stale": counts.stale,
        "dropped": counts.dropped,
    })
}

fn show(
    name: &str,
    counts: &Counts,
    settings: &QueueSettings,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let mut set = Vec::new();
    if settings.paused {
        set.push("paused".to_owned());
    }
    if let Some(rule) = settings.rate {
        set.push(format!("{} with a burst of {}", rule.rate, rule.burst));
    }
    if settings.per_key != QueueSettings::default().per_key {
        let many = settings.per_key.map_or("any number".to_owned(), |most| most.to_string());
        set.push(format!("{many} of a key concurrently"));
    }
    if let Some(most) = settings.most_dead {
        set.push(format!("at most {most} dead letters"));
    }
    let set = if set.is_empty() { String::new() } else { format!(" ({})", set.join(", ")) };
    let Counts { due, later, held, running, dead, oldest, .. } = counts;
    let oldest =
        if *due > 0 { format!(" (for {})", duration::text(*oldest)) } else { String::new() };
    let Counts { enqueued, done, retried, died, lost, stale, dropped, .. } = counts;
    writeln!(out, "{}{set}", sanitise(name))?;
    writeln!(
        out,
        "  now      due {due}{oldest}, later {later}, held {held}, running {running}, dead {dead}"
    )?;
    writeln!(out, "  total    enqueued {enqueued}, done {done}, retried {retried}, died {died}")?;
    writeln!(
        out,
        "  errors   leases lost {lost}, stale settlements {stale}, dead letters dropped {dropped}"
    )
}
