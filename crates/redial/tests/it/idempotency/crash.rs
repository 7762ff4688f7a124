//! A process that is killed while its handler runs: not locked for ever, not executed twice in silence.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use redial::Key;
use redial::http::server::idempotency::{AfterInterruption, IdempotencyLayer, Interrupted};
use tokio::net::TcpListener;

use super::support::{client, redis_at, redis_url, request, send, within};
use crate::support::ms;

/// Set in the child only: the prefix of its keys.
const PREFIX: &str = "REDIAL_TEST_IDEMPOTENCY_CHILD";

const SIGN: &[u8] = b"listening on ";

/// The effect is counted in Redis, where it outlives the process.
async fn counter(prefix: &str, command: &str) -> u64 {
    let client = redis::Client::open(redis_url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = redis::cmd(command);
    let count = command.arg(format!("{prefix}executed")).query_async(&mut connection);
    count.await.map(Option::unwrap_or_default).unwrap()
}

async fn executed(prefix: &str) -> u64 {
    counter(prefix, "GET").await
}

/// Does not return unless it is told that it was interrupted before.
async fn charge(prefix: &str, request: Request) -> String {
    let count = counter(prefix, "INCR").await;
    if request.extensions().get::<AfterInterruption>().is_none() {
        std::future::pending::<()>().await;
    }
    format!("charge {count}, after an interruption")
}

async fn serve(prefix: &str, on_interrupted: Interrupted) -> SocketAddr {
    let store = redis_at(&redis_url(), prefix).await;
    let layer = IdempotencyLayer::new(store).lease(ms(1_000)).on_interrupted(on_interrupted);
    let prefix = prefix.to_owned();
    let handler = post(async move |request: Request| charge(&prefix, request).await);
    let app: Router = Router::new().route("/charge", handler).layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// The server that the next test starts as a process of its own and kills. By itself it tests nothing.
#[tokio::test]
async fn the_process_that_is_killed() {
    let Ok(prefix) = env::var(PREFIX) else { return };
    let address = serve(&prefix, Interrupted::Refuse).await;
    let sign = [SIGN, address.to_string().as_bytes(), b"\n"].concat();
    std::io::stdout().write_all(&sign).unwrap();
    std::future::pending::<()>().await;
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_process(prefix: &str) -> (Killed, SocketAddr) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "idempotency::crash::the_process_that_is_killed", "--nocapture"]);
    command.env(PREFIX, prefix).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = Killed(command.spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).split(b'\n');
    let address = lines.find_map(|line| {
        let line = line.unwrap();
        let at = line.windows(SIGN.len()).position(|part| part == SIGN)?;
        String::from_utf8_lossy(&line[at + SIGN.len()..]).parse().ok()
    });
    (child, address.expect("the child says where it listens"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_half_way_leaves_an_interruption() {
    let prefix = format!("{}:", Key::fresh());
    let (child, address) = start_process(&prefix);
    let client = client();
    let first = tokio::spawn(request(&client, address, "/charge", "a").send());
    within(async {
        while executed(&prefix).await == 0 {
            tokio::time::sleep(ms(20)).await;
        }
    })
    .await;
    let second = serve(&prefix, Interrupted::Refuse).await;
    let ask = async |address| send(request(&client, address, "/charge", "a")).await;
    assert_eq!(ask(second).await.problem(), (409, "in-flight".to_owned()));

    drop(child);
    assert!(within(first).await.unwrap().is_err(), "its reply is lost");
    let settled = within(async {
        loop {
            let answer = ask(second).await;
            if answer.status != 409 {
                return answer;
            }
            tokio::time::sleep(ms(20)).await;
        }
    });
    assert_eq!(settled.await.problem(), (424, "interrupted".to_owned()));
    assert_eq!(executed(&prefix).await, 1);

    let third = serve(&prefix, Interrupted::Execute).await;
    assert_eq!(ask(third).await.body, "charge 2, after an interruption");
    assert!(ask(second).await.is_replayed(), "the outcome is known now");
    assert_eq!(executed(&prefix).await, 2);
}
