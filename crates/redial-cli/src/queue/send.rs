use std::io::Write;

use redial_queue::delivery::Delivery;

use super::add;
use super::input::{JobArgs, Source, header};
use super::location::QueueArgs;
use crate::failed::Failed;

/// Add an HTTP delivery to a queue, such as a webhook
///
/// `redial queue work` sends it, and retries it under its policy with the same Idempotency-Key, until the receiver accepts
/// it or it becomes a dead letter.
#[derive(clap::Args)]
#[command(after_help = "\
As with curl, a request with data is a POST and one without is a GET, unless -X names another method. Unlike with curl, \
data is sent unchanged, and has no Content-Type unless -H sets one.

Examples:
  export REDIAL_STORE=jobs.db
  redial queue send -d '{\"order\":7}' http://127.0.0.1:9/orders
  # a file
  echo report > report.txt
  redial queue send -X PUT -d @report.txt http://127.0.0.1:9/report
  # in ten seconds, after earlier ones with the same key
  redial queue send --key order-7 --after 10s -d paid http://127.0.0.1:9/orders
  # send what is due
  redial queue work --until nothing-due")]
pub(crate) struct Args {
    #[command(flatten)]
    queue: QueueArgs,
    /// The method [default: POST with data, GET without]
    #[arg(short = 'X', long = "request", value_name = "METHOD", help_heading = "Request")]
    method: Option<String>,
    /// A header; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header,
          help_heading = "Request")]
    headers: Vec<(String, String)>,
    /// The body: the text, @ and the path of a file, or - for stdin
    #[arg(short = 'd', long = "data", value_name = "TEXT|@FILE|-", value_parser = Source::read,
          help_heading = "Request")]
    data: Option<Source>,
    #[command(flatten)]
    job: JobArgs,
    /// The URL: http:// or https://
    url: String,
}

pub(super) async fn run(args: &Args, out: &mut impl Write) -> Result<(), Failed> {
    let wrong = |why: redial_queue::delivery::InvalidDelivery| Failed::Input(why.to_string());
    let usual = if args.data.is_some() { "POST" } else { "GET" };
    let method = args.method.as_deref().unwrap_or(usual);
    let mut delivery = Delivery::new(method, &args.url).map_err(wrong)?;
    for (name, value) in &args.headers {
        if name.eq_ignore_ascii_case("idempotency-key") {
            let why = "set the key with --idempotency-key: it must be the same for all attempts";
            return Err(Failed::input("--header", why));
        }
        delivery = delivery.header(name, value).map_err(wrong)?;
    }
    if let Some(data) = &args.data {
        delivery = delivery.body(data.bytes()?);
    }
    let job = args.job.apply(delivery.into_job());
    Delivery::check_key(&job.idempotency_key).map_err(wrong)?;
    let became = args.queue.create().await?.enqueue(job).await?;
    add::print(&[became], args.job.json, out)?;
    add::refused(&[became])
}
