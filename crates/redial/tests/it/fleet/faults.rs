//! Faults of Redis: each is reported once and affects no call.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redial::fleet::{Fleet, FleetEvent};

use super::support::{
    ObservedFleet, Redis, command, fails, free_port, name, retries, retry, shared, until,
};

#[test]
fn redis_restarts_without_its_data() {
    let mut redis = Redis::start(&[]);
    let observed = ObservedFleet::open(&redis.url());
    let retry = retry(&observed.fleet);
    observed.reaches();
    until("a share", || observed.stats().share > 0.0);
    redis.kill();
    let message = observed.loses("unreachable");
    assert!(message.starts_with("Redis cannot be reached: "), "{message}");
    // The instance keeps its share of the floor.
    retries(&retry);
    redis.start_again();
    observed.reaches_again();
    assert!(matches!(observed.next(), FleetEvent::Reset { .. }));
    retries(&retry);
    assert_eq!(observed.all(), []);
    let stats = observed.stats();
    assert!(stats.connected && stats.syncs.unreachable > 0 && stats.syncs.ok > 0, "{stats:?}");
    assert!(stats.last_error.is_some());
}

#[test]
fn redis_is_down_at_start() {
    let mut redis = Redis::start(&[]);
    redis.kill();
    let observed = ObservedFleet::open(&redis.url());
    let retry = retry(&observed.fleet);
    observed.loses("unreachable");
    assert_eq!(retry.run_blocking(|_| Ok::<_, std::io::Error>(7)).unwrap(), 7);
    redis.start_again();
    observed.reaches_again();
    retries(&retry);
}

#[test]
fn the_ledger_is_deleted() {
    let redis = Redis::start(&[]);
    let observed = ObservedFleet::open(&redis.url());
    let retry = retry(&observed.fleet);
    observed.reaches();
    let _: () = redis.command(&["FLUSHALL"]);
    assert!(matches!(observed.next(), FleetEvent::Reset { .. }));
    retries(&retry);
    assert_eq!(observed.all(), []);
}

#[test]
fn the_script_is_evicted() {
    let redis = Redis::start(&[]);
    let observed = ObservedFleet::open(&redis.url());
    let retry = retry(&observed.fleet);
    observed.reaches();
    for _ in 0..5 {
        let _: () = redis.command(&["SCRIPT", "FLUSH"]);
        let before = observed.stats().syncs.ok;
        until("asked again", || observed.stats().syncs.ok > before);
    }
    retries(&retry);
    assert_eq!(observed.all(), []);
}

#[test]
fn out_of_memory() {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]);
    let observed = ObservedFleet::open(&redis.url());
    let retry = retry(&observed.fleet);
    observed.reaches();
    let _: () = redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let message = observed.loses("refused");
    assert!(message.starts_with("Redis refuses with OOM: "), "{message}");
    retries(&retry);
    let _: () = redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    observed.reaches_again();
    assert!(observed.stats().syncs.refused > 0);
}

#[test]
fn redis_is_a_read_only_replica() {
    let (redis, primary) = (Redis::start(&[]), Redis::start(&[]));
    let observed = ObservedFleet::open(&redis.url());
    let _retry = retry(&observed.fleet);
    observed.reaches();
    let _: () = redis.command(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    let message = observed.loses("refused");
    assert!(message.contains("READONLY"), "{message}");
    let _: () = redis.command(&["REPLICAOF", "NO", "ONE"]);
    observed.reaches_again();
}

#[test]
fn the_key_has_another_type() {
    let (url, name) = (shared(), name());
    let key = format!("redial:fleet:{name}");
    let _: () = command(&url, &["SET", &key, "a song"]);
    let observed = ObservedFleet::draft(Fleet::draft(&url, &name));
    let retry = retry(&observed.fleet);
    let well = retry.clone().scope("elsewhere");
    let lost = loop {
        match observed.next() {
            FleetEvent::Lost { ledger, error } => break (ledger, error),
            FleetEvent::Reached { ledger, .. } => assert_ne!(ledger, name),
            other => panic!("{other}"),
        }
    };
    assert_eq!(lost.0, name);
    assert!(lost.1.to_string().contains("WRONGTYPE"), "{}", lost.1);
    retries(&well);
    let left: String = command(&url, &["GET", &key]);
    assert_eq!(left, "a song", "the value of another program is not overwritten");
    let _: () = command(&url, &["DEL", &key]);
    until("well", || observed.stats().connected);
    retries(&retry);
}

/// Invalid numbers are replaced, and a value of another type is left alone.
#[test]
fn the_ledger_is_corrupt() {
    let (url, name) = (shared(), name());
    let key = format!("redial:fleet:{name}");
    let mut connection = redis::Client::open(&*url).unwrap().get_connection().unwrap();
    let mut nonsense = b"redial1".to_vec();
    nonsense.extend([f64::NAN, -1.0, 1e300, 7.0].repeat(8).into_iter().flat_map(f64::to_le_bytes));
    let _: () = redis::cmd("SET").arg(&key).arg(&nonsense[..]).query(&mut connection).unwrap();
    let observed = ObservedFleet::draft(Fleet::draft(&url, &name));
    let instance = retry(&observed.fleet);
    assert_eq!(observed.reaches(), 1);
    retries(&instance);

    let name = format!("{name}/other");
    let _: () = command(&url, &["HSET", &format!("redial:fleet:{name}"), "epoch", "yesterday"]);
    let observed = ObservedFleet::draft(Fleet::draft(&url, &name));
    let _retry = retry(&observed.fleet);
    assert!(observed.loses("refused").starts_with("Redis refuses with WRONGTYPE: "));
}

/// A window of 1 µs would make the script loop for very long, during which Redis serves no other client.
#[test]
fn a_ledger_with_a_window_of_a_microsecond() {
    let redis = Redis::start(&[]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as f64;
    let (period, ttl) = ((now / 6e7).floor(), 1e7);
    let mut numbers = [0.0; 32];
    (numbers[0], numbers[1], numbers[8]) = (now.floor() - 1e6, now.floor() - 1e6, period);
    (numbers[9], numbers[10], numbers[11], numbers[14]) = (1e5, 1e8, ttl, 2.0);
    let value = [&b"redial1"[..], &numbers.map(f64::to_le_bytes).concat()].concat();
    let name = name();
    let mut connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
    let mut set = redis::cmd("SET");
    set.arg(format!("redial:fleet:{name}")).arg(value);
    let _: () = set.query(&mut connection).unwrap();
    let observed = ObservedFleet::draft(Fleet::draft(&redis.url(), &name));
    let instance = retry(&observed.fleet);
    observed.reaches();
    retries(&instance);
}

#[test]
fn the_wrong_password() {
    let redis = Redis::start(&["--requirepass", "right"]);
    let at = |user: &str| format!("redis://{user}127.0.0.1:{}", redis.port);
    for user in ["", ":wrong@", "other:right@"] {
        let observed = ObservedFleet::open(&at(user));
        let retry = retry(&observed.fleet);
        let message = observed.loses("refused");
        let code = if user.is_empty() { "NOAUTH" } else { "WRONGPASS" };
        assert!(message.contains(code) && !message.contains("right@"), "{message}");
        fails(&retry);
    }
    for user in [":right@", "default:right@"] {
        let observed = ObservedFleet::open(&at(user));
        let _retry = retry(&observed.fleet);
        observed.reaches();
    }
}

/// Sends the same reply to every command, or closes the connection at the first one.
fn server(says: &'static [u8], stays: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move |mut stream: TcpStream| {
        let mut request = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut request) {
            if !stays {
                return;
            }
            for _ in request[..read].iter().filter(|byte| **byte == b'*') {
                let _ = stream.write_all(says);
            }
        }
    };
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || serve(stream.unwrap()));
        }
    });
    format!("redis://{address}")
}

#[test]
fn the_server_is_not_redis() {
    for (says, stays, what) in [
        (&b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"[..], true, "garbage"),
        (b"\x00\xff\x17 what?\r\n", true, "garbage"),
        (b"", false, "unreachable"),
        (b"", true, "timeout"),
        (b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n", true, "garbage"),
    ] {
        let observed = ObservedFleet::open(&server(says, stays));
        let retry = retry(&observed.fleet);
        let message = observed.loses(what);
        assert!(message.len() < 400, "{message}");
        assert_eq!(retry.run_blocking(|_| Ok::<_, std::io::Error>(7)).unwrap(), 7);
        assert_eq!(fails(&retry), 1, "no tokens are earned yet");
    }
}

/// Fifty instances wait for a Redis that is down. When it restarts, they reconnect over some time.
#[test]
fn clients_do_not_reconnect_at_the_same_time() {
    let port = free_port();
    let url = format!("redis://127.0.0.1:{port}");
    let fleets: Vec<ObservedFleet> = (0..50).map(|_| ObservedFleet::open(&url)).collect();
    let _instances: Vec<_> = fleets.iter().map(|observed| retry(&observed.fleet)).collect();
    fleets.iter().for_each(|observed| drop(observed.loses("unreachable")));
    until("waits are long", || fleets.iter().all(|it| it.stats().syncs.unreachable >= 5));
    // Counts the connections by time.
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let (count, started) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let mut in_tenth = Vec::new();
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            kept.push(stream);
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let mut before = 0;
    while before < 50 && started.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(100));
        let now = count.load(Ordering::SeqCst);
        in_tenth.push(now - before);
        before = now;
    }
    assert!(before >= 50, "all reconnect: {in_tenth:?}");
    assert!(in_tenth.iter().all(|count| *count <= 15), "{in_tenth:?}");
}

#[test]
fn an_observer_that_panics_or_leaves_affects_nothing_else() {
    let url = shared();
    let fleet = Fleet::draft(&url, &name()).observe(|event| panic!("{event}: this test panics"));
    let fleet = fleet.open().unwrap();
    let retry = retry(&fleet);
    retries(&retry);
    drop((fleet, retry));
}
