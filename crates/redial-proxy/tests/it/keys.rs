//! Payments over a network that loses replies: the sidecar of the caller makes keys, the sidecar in front of the server
//! remembers them, and each payment happens once.

use std::collections::HashMap;
use std::env;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::kit::{Accepted, OK, Running, Upstream, Wire, free_port};

const PAYMENTS: u64 = 500;
const CALLERS: u64 = 16;
const SEED: u64 = 19;

/// What the network does with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Delivered,
    /// The server does not see it.
    RequestLost,
    ReplyLost,
    ReplyCut,
    /// The connection breaks while the server works.
    Abandoned,
}

impl Fate {
    fn of(payment: u64, attempt: u64) -> Self {
        match redial_core::draw(redial_core::draw(SEED, payment), attempt) % 10 {
            0 => Self::RequestLost,
            1 | 2 => Self::ReplyLost,
            3 => Self::ReplyCut,
            4 => Self::Abandoned,
            _ => Self::Delivered,
        }
    }
}

/// The network between the two sidecars.
fn relay(accepted: &mut Accepted, server: u16, attempts: &Mutex<HashMap<u64, u64>>) {
    while let Some(request) = accepted.request() {
        let payment: u64 = request.text().parse().unwrap();
        let attempt = {
            let mut attempts = attempts.lock().unwrap();
            let attempt = attempts.entry(payment).or_default();
            *attempt += 1;
            *attempt
        };
        let fate = Fate::of(payment, attempt);
        if fate == Fate::RequestLost {
            return;
        }
        let mut onward = Wire::connect(server);
        onward.send(request.raw.as_bytes());
        onward.send(&request.body);
        if fate == Fate::Abandoned {
            return;
        }
        let reply = onward.response();
        match fate {
            Fate::ReplyCut => accepted.respond(&reply.raw[..reply.raw.len() / 2]),
            Fate::Delivered => accepted.respond(&(reply.raw.clone() + &reply.text())),
            _ => {}
        }
        if fate != Fate::Delivered {
            return;
        }
    }
}

#[test]
fn payments_happen_once_although_replies_are_lost() {
    let paid = Arc::new(Mutex::new(HashMap::<u64, u64>::new()));
    let effects = Arc::clone(&paid);
    let app = Upstream::new(move |accepted| {
        while let Some(request) = accepted.request() {
            let payment = request.text();
            *effects.lock().unwrap().entry(payment.parse().unwrap()).or_default() += 1;
            let length = payment.len();
            accepted.respond(&format!(
                "HTTP/1.1 201 Created\r\ncontent-length: {length}\r\n\r\n{payment}"
            ));
        }
    });
    let server = Running::before(
        &app,
        "policy = \"once\"\nidempotency = { store = \"memory\", methods = [\"POST\"] }\n\
         [policy.once]\nattempts = 1",
    );
    let attempts = Arc::new(Mutex::new(HashMap::new()));
    let (counted, port) = (Arc::clone(&attempts), server.port);
    let network = Upstream::new(move |accepted| relay(accepted, port, &counted));
    let caller = Running::before(
        &network,
        "policy = \"steady\"\nkeys = \"make\"\n[policy.steady]\nattempts = 8\ndeadline = \"none\"\n\
         budget = \"none\"\nbackoff = { base = \"1ms\", cap = \"20ms\" }",
    );
    let port = caller.port;
    let of_caller = |first: u64| {
        let mut wire = Wire::connect(port);
        let mut pay = |payment: u64| {
            let (body, length) = (payment.to_string(), payment.to_string().len());
            wire.send(format!(
                "POST /pay HTTP/1.1\r\nhost: app\r\ncontent-length: {length}\r\n\r\n{body}"
            ));
            (payment, wire.response())
        };
        (first..PAYMENTS).step_by(CALLERS as usize).map(&mut pay).collect::<Vec<_>>()
    };
    let replies: Vec<_> = thread::scope(|scope| {
        let callers: Vec<_> =
            (0..CALLERS).map(|first| scope.spawn(move || of_caller(first))).collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });

    let (attempts, paid) = (attempts.lock().unwrap(), paid.lock().unwrap());
    let mut successes = 0;
    for (payment, reply) in &replies {
        let happened = paid.get(payment).copied().unwrap_or(0);
        let fates: Vec<_> = (1..=attempts[payment]).map(|it| Fate::of(*payment, it)).collect();
        match reply.status() {
            201 => {
                assert_eq!((reply.text(), happened), (payment.to_string(), 1), "{fates:?}");
                successes += 1;
            }
            // Its last attempt was lost, or overtook the execution that the one before had started.
            502 | 409 => assert!(happened <= 1, "{payment} happened {happened} times: {fates:?}"),
            _ => panic!("{payment}: {reply:?} after {fates:?}"),
        }
    }
    assert_eq!(replies.len() as u64, PAYMENTS);
    let sent: u64 = attempts.values().sum();
    assert!(sent > PAYMENTS * 3 / 2, "only {sent} attempts: the network loses too little");
    assert!(successes > PAYMENTS * 9 / 10, "{successes} payments succeeded");
}

#[test]
fn a_key_of_a_request_that_was_never_sent_can_be_used_again() {
    let proxy = Running::to(
        &format!("\"http://127.0.0.1:{}\"", free_port()),
        "policy = \"p\"\nidempotency = { store = \"memory\", methods = [\"POST\"] }\n\
         [policy.p]\nattempts = 4\nbudget = \"none\"\nbackoff = { base = \"1ms\" }",
    );
    let request =
        "POST / HTTP/1.1\r\nhost: app\r\nidempotency-key: \"1\"\r\ncontent-length: 0\r\n\r\n";
    for _ in 0..2 {
        let response = proxy.ask(request);
        assert_eq!(response.status(), 503, "{response:?}");
        assert!(response.text().contains("after 4 attempts"), "{}", response.text());
    }
}

#[test]
fn sidecars_with_one_redis_share_their_keys() {
    let redis = env::var("REDIAL_TEST_REDIS")
        .expect("REDIAL_TEST_REDIS names no Redis: run `cargo xtask test`, which starts one");
    let upstream = Upstream::always(OK);
    let table = format!(
        "idempotency = {{ store = \"{redis}\", methods = [\"POST\"] }}\npolicy = \"once\"\n\
         [policy.once]\nattempts = 1\n"
    );
    let [one, two] = [(), ()].map(|()| Running::before(&upstream, &table));
    let key = format!("{}-{}", std::process::id(), upstream.port);
    let request = format!(
        "POST / HTTP/1.1\r\nhost: app\r\nidempotency-key: \"{key}\"\r\ncontent-length: 0\r\n\r\n"
    );
    for proxy in [&one, &two] {
        let response = proxy.ask(&request);
        assert_eq!((response.status(), response.text().as_str()), (200, "ok"), "{response:?}");
    }
    upstream.only_request();
}
