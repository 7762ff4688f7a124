//! `?` on a failed call, in functions that return the usual dynamic errors.

use std::error::Error as StdError;
use std::fmt;

use redial::{Policy, Retry, Stop, testing};

#[derive(Debug)]
struct Broken(std::io::Error);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cable is broken")
    }
}

impl StdError for Broken {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

fn broken() -> Broken {
    Broken(std::io::Error::other("a shark"))
}

fn retry() -> Retry {
    Retry::new(Policy::draft().attempts(2).without_park().build().unwrap())
}

/// The messages of an error and its sources, without the time that the call took.
fn chain(error: &(dyn StdError + 'static)) -> Vec<String> {
    let first = error.to_string();
    let (_, reason) = first.split_once(": ").unwrap();
    let (reason, _) = reason.split_once("; last outcome: ").unwrap();
    let sources = std::iter::successors(error.source(), |error| (*error).source());
    std::iter::once(reason.to_owned()).chain(sources.map(ToString::to_string)).collect()
}

const USED: &str = "all attempts were used";

#[tokio::test(start_paused = true)]
async fn an_anyhow_error_keeps_its_chain_of_causes() {
    async fn fetch() -> anyhow::Result<u32> {
        anyhow::Context::context(Err(broken()), "fetching the score")
    }
    async fn call() -> anyhow::Result<u32> {
        let retry = retry().retry_if(|error: &anyhow::Error| error.is::<Broken>());
        Ok(retry.run(|_| fetch()).await? + 1)
    }
    let error = call().await.unwrap_err();
    assert_eq!(
        chain(error.as_ref()),
        [USED, "fetching the score", "the cable is broken", "a shark"]
    );
    let failed: redial::Error<redial::decide::DynError<anyhow::Error>> = error.downcast().unwrap();
    assert_eq!((failed.reason(), failed.attempts()), (Stop::Attempts, 2));
    assert!(failed.cause().unwrap().is::<Broken>(), "the original is there");
    assert!(failed.into_cause().unwrap().into_inner().downcast::<Broken>().is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_eyre_report_keeps_its_chain_of_causes() {
    async fn fetch() -> eyre::Result<u32> {
        eyre::WrapErr::wrap_err(Err(broken()), "fetching the score")
    }
    async fn call() -> eyre::Result<u32> {
        let retry = retry().retry_if(|error: &eyre::Report| error.is::<Broken>());
        Ok(retry.run(|_| fetch()).await? + 1)
    }
    let error = call().await.unwrap_err();
    assert_eq!(
        chain(error.as_ref()),
        [USED, "fetching the score", "the cable is broken", "a shark"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_boxed_error_keeps_its_chain_of_causes() {
    type Boxed = Box<dyn StdError + Send + Sync>;
    async fn call() -> Result<u32, Boxed> {
        let retry = retry().retry_if(|error: &Boxed| error.is::<Broken>());
        Ok(retry.run(|_| async { Err::<u32, Boxed>(broken().into()) }).await? + 1)
    }
    assert_eq!(chain(&*call().await.unwrap_err()), [USED, "the cable is broken", "a shark"]);
}

#[test]
fn boxed_errors_that_stay_on_their_thread() {
    type Boxed = Box<dyn StdError>;
    fn call() -> Result<u32, Boxed> {
        let retry = retry().retry_if(|error: &Boxed| error.is::<Broken>());
        Ok(retry.run_blocking(|_| Err::<u32, Boxed>(broken().into()))? + 1)
    }
    let _fast = testing::skip_waits(2);
    assert_eq!(chain(&*call().unwrap_err()), [USED, "the cable is broken", "a shark"]);
}

#[tokio::test(start_paused = true)]
async fn typed_errors_become_dynamic_ones() {
    async fn call() -> anyhow::Result<u32> {
        let retry = retry().retry_if(|_: &Broken| true);
        Ok(retry.run(|_| async { Err::<u32, _>(broken()) }).await? + 1)
    }
    let error = call().await.unwrap_err();
    assert_eq!(chain(error.as_ref()), [USED, "the cable is broken", "a shark"]);
    assert!(error.source().unwrap().is::<Broken>());
}
