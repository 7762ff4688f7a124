//! What the caller of a gateway is told: a status for every error, and the number of attempts.

use std::collections::HashSet;
use std::io;

use bytes::Bytes;
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use redial::admit::budget::{Budget, WindowBudget};
use redial::admit::{BreakerRule, CoolDownRule, RateRule, ThrottleRule};
use redial::decide::{Class, Failure, Outcome, Reach};
use redial::http::{BoxError, EndpointRefused, Error, Replay, RetryLayer, names};
use redial::schedule::Hint;
use redial::{CancelToken, Draft, Inbound, Policy, Rate, Retry, Stop};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::replay::{Fed, fed};
use super::script::{Server, client, get, layer, post, status};
use crate::support::{Log, ms, plain, stalled, unbounded};

/// A call whose attempts all fail like this.
async fn fail(retry: Retry, failure: Failure) -> Error {
    let retry = retry.classify(move |_: &Result<(), BoxError>| Outcome::Failure(failure));
    retry.run(|_| async { Err("broken".into()) }).await.unwrap_err().into()
}

const RESET: Failure = Failure::new(Class::Reset);

fn with(change: impl FnOnce(Draft) -> Draft) -> Retry {
    Retry::new(unbounded(change)).idempotent()
}

/// The error of the second call.
async fn second(retry: Retry) -> Error {
    fail(retry.clone(), RESET).await;
    fail(retry, RESET).await
}

/// A budget that pays for nothing.
fn empty() -> Budget {
    let budget = WindowBudget::ratio(0.001).floor(Rate::per_second(0));
    Budget::Window(WindowBudget { bootstrap: 0, ..budget })
}

/// The error of a call that the adaptive throttle refused.
async fn throttled() -> Error {
    let retry = with(|p| p.attempts(1).throttle(ThrottleRule::k(1.0)));
    loop {
        let error = fail(retry.clone(), Failure::new(Class::Throttled)).await;
        if error.attempts() == 0 {
            return error;
        }
    }
}

/// The error of a call while another one has the only place.
async fn crowded() -> Error {
    let retry = with(|p| p.attempts(1).concurrency(1));
    let never = retry.clone().retry_if(|_: &BoxError| true);
    let held =
        tokio::spawn(
            async move { never.run(|_| std::future::pending::<Result<(), BoxError>>()).await },
        );
    tokio::task::yield_now().await;
    let error = fail(retry, RESET).await;
    held.abort();
    error
}

/// The error of a request whose body broke while it was sent.
async fn broken_body() -> Error {
    let (feed, body) = fed(None);
    feed.send(Err("the disk is gone".into())).unwrap();
    let client = service_fn(|request: Request<Replay<Fed>>| async {
        let read = request.into_body().collect().await;
        read.map_err(|_| io::Error::from(io::ErrorKind::ConnectionReset))?;
        Ok::<_, io::Error>(Response::new(Empty::<Bytes>::new()))
    });
    let client = layer(unbounded(|p| p)).layer(client);
    client.oneshot(Request::put("/").body(body).unwrap()).await.unwrap_err()
}

async fn error_of(reason: Stop) -> Error {
    let open = BreakerRule::default().last_calls(1).open_for(ms(60_000), 0.0);
    let one = RateRule::new(Rate::new(1, ms(3_600_000)), 1);
    match reason {
        Stop::Permanent => fail(with(|p| p), Failure::new(Class::Permanent)).await,
        Stop::Unsafe => fail(Retry::new(unbounded(|p| p)), RESET).await,
        Stop::Attempts => fail(with(|p| p), RESET).await,
        Stop::Deadline => fail(with(|p| p.deadline(ms(50))), RESET).await,
        Stop::HintTooLong => fail(with(|p| p), RESET.hint(Hint::AtLeast(ms(3_600_000)))).await,
        Stop::Budget => fail(Retry::new(plain(|p| p.budget(empty()))).idempotent(), RESET).await,
        Stop::BreakerOpen => second(with(|p| p.attempts(1).breaker(open))).await,
        Stop::Throttled => throttled().await,
        Stop::Stalled => fail(stalled().await, RESET).await,
        Stop::RateLimit => second(with(|p| p.attempts(1).rate(one))).await,
        Stop::Concurrency => crowded().await,
        Stop::CoolDown => {
            let rule = CoolDownRule::every(ms(60_000));
            second(with(|p| p.cooldown(rule)).cooldown_key("a job")).await
        }
        Stop::ToldToStop => fail(with(|p| p), RESET.told_to_stop()).await,
        Stop::SwitchedOff => {
            let retry = with(|p| p);
            retry.set_enabled(false);
            fail(retry, RESET).await
        }
        Stop::Nested => {
            let again = Inbound::default().with_attempt(2);
            again.scope(fail(with(Draft::refuse_nested), RESET)).await
        }
        Stop::Body => broken_body().await,
        Stop::Cancelled => {
            let token = CancelToken::new();
            token.cancel();
            let retry = with(|p| p).retry_if(|_: &BoxError| true);
            let sent = retry.run_blocking_with(&token, |_| Err::<(), BoxError>("broken".into()));
            sent.unwrap_err().map_cause(|cause| BoxError::from(cause.to_string())).into()
        }
        other => panic!("no error for {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_reason_has_a_status() {
    let mut seen = HashSet::new();
    for reason in Stop::ALL {
        let error = error_of(reason).await;
        assert_eq!(error.reason(), reason, "{error:#}");
        let expected = match reason {
            Stop::Deadline => 504,
            reason if reason.is_guard() => 503,
            Stop::Cancelled => 503,
            _ => 502,
        };
        assert_eq!(error.status().as_u16(), expected, "{error:#}");
        seen.insert(reason);
    }
    assert_eq!(seen.len(), Stop::ALL.len());
}

#[tokio::test(start_paused = true)]
async fn a_timeout_and_a_request_that_was_not_sent_have_their_own_status() {
    let refused = Failure::new(Class::Refused).reach(Reach::NotSent);
    for (failure, expected) in [
        (Failure::new(Class::Timeout), StatusCode::GATEWAY_TIMEOUT),
        (Failure::new(Class::Connect), StatusCode::SERVICE_UNAVAILABLE),
        (refused, StatusCode::SERVICE_UNAVAILABLE),
        (Failure::new(Class::Connect).reach(Reach::Unknown), StatusCode::BAD_GATEWAY),
        (RESET, StatusCode::BAD_GATEWAY),
    ] {
        for retry in [with(|p| p), with(|p| p.attempts(1)), Retry::new(unbounded(|p| p))] {
            assert_eq!(fail(retry, failure).await.status(), expected, "{failure:?}");
        }
    }
    let error =
        fail(Retry::new(plain(|p| p.budget(empty()))).idempotent(), Failure::new(Class::Timeout));
    assert_eq!(error.await.status(), 504, "the attempt may have been processed");
}

#[test]
fn what_an_endpoint_refuses_was_not_sent() {
    let refused = EndpointRefused::new(Stop::BreakerOpen);
    let failure = redial::http::failure(&refused);
    assert_eq!((failure.class, failure.reach), (Class::Refused, Reach::NotSent));
    assert_eq!(refused.to_string(), "not sent to the endpoint: the circuit breaker is open");
}

#[tokio::test(start_paused = true)]
async fn an_error_says_whether_any_attempt_may_have_been_processed() {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, InvalidData};
    let call = |kinds: &'static [io::ErrorKind]| async move {
        let mut made = kinds.iter();
        let service = service_fn(move |_: Request<Replay<Empty<Bytes>>>| {
            let kind = made.next().copied().unwrap_or(ConnectionRefused);
            async move { Err::<Response<Empty<Bytes>>, _>(io::Error::from(kind)) }
        });
        let layer = layer(unbounded(|p| p));
        let request = Request::new(Empty::new());
        let error = layer.layer(service).oneshot(request).await.unwrap_err();
        (error.attempts(), error.maybe_processed())
    };
    assert_eq!(call(&[]).await, (4, false), "nothing was sent");
    assert_eq!(call(&[ConnectionReset]).await, (4, true), "the first one was");
    assert_eq!(call(&[ConnectionRefused, InvalidData]).await, (2, true), "the last one was");
}

#[tokio::test(start_paused = true)]
async fn every_response_carries_the_number_of_attempts_when_asked_to() {
    let count = |layer: RetryLayer, answers: &'static [u16]| async move {
        let answers: Vec<_> =
            answers.iter().map(|it| status(*it).with("redial-attempts", "9")).collect();
        let response = client(&Server::new(&answers), &layer).oneshot(get()).await.unwrap();
        response
            .headers()
            .get_all(names::ATTEMPTS)
            .iter()
            .map(|it| it.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let retry = Retry::new(unbounded(|p| p));
    for retry in [retry.clone(), retry.observe(Log::default())] {
        let plain = RetryLayer::new(retry);
        assert_eq!(count(plain.clone(), &[200]).await, ["9"], "left alone");
        let layer = plain.attempts_header(names::ATTEMPTS);
        assert_eq!(count(layer.clone(), &[200]).await, ["1"]);
        assert_eq!(count(layer.clone(), &[503, 503, 201]).await, ["3"]);
        assert_eq!(count(layer.clone(), &[404]).await, ["1"]);
        assert_eq!(count(layer, &[503]).await, ["4"], "all attempts were used");
    }
    let named = layer(Policy::standard()).attempts_header(HeaderName::from_static("x-tries"));
    let response = client(&Server::new(&[status(500)]), &named).oneshot(post()).await.unwrap();
    assert_eq!(response.headers()["x-tries"], "1", "unsafe to repeat");
}
