//! Any job, read as a delivery: it is one that survives the conversion to a job and back, or it is an error.
#![no_main]

use std::time::SystemTime;

use libfuzzer_sys::fuzz_target;
use redial_core::Progress;
use redial_queue::Priority;
use redial_queue::delivery::Delivery;
use redial_queue::durable::{Job, JobId, NewJob, State};

fuzz_target!(|input: &str| {
    let mut lines = input.lines();
    let headers = lines.by_ref().take_while(|line| !line.is_empty());
    let pair = |line: &str| {
        let (name, value) = line.split_once('\t').unwrap_or((line, ""));
        (name.to_owned(), value.to_owned())
    };
    let headers = headers.map(pair).collect();
    let payload = lines.collect::<String>().into_bytes();
    let Ok(delivery) = Delivery::of(&job(headers, payload)) else { return };
    let (method, url) = (delivery.method().clone(), delivery.url().to_owned());
    let (destination, fields) = (delivery.destination(), delivery.headers().clone());
    let NewJob { headers, payload, .. } = delivery.into_job();
    let again = Delivery::of(&job(headers, payload)).expect("a delivery becomes a delivery again");
    assert_eq!((again.method(), again.url()), (&method, url.as_str()));
    assert_eq!((again.destination(), again.headers()), (destination, &fields));
});

fn job(headers: Vec<(String, String)>, payload: Vec<u8>) -> Job {
    Job {
        id: JobId(1),
        queue: "fuzz".to_owned(),
        state: State::Running,
        payload,
        headers,
        key: None,
        priority: Priority::NORMAL,
        policy: None,
        idempotency_key: "k".to_owned(),
        created: SystemTime::UNIX_EPOCH,
        due: SystemTime::UNIX_EPOCH,
        begun: None,
        progress: Progress::default(),
        history: Vec::new(),
        reason: None,
    }
}
