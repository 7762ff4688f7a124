//! What goes wrong with a Redis, said once, and without effect on calls.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redial::fleet::{Fleet, FleetEvent};

use super::rig::{Heard, Redis, command, fails, free_port, name, retries, retry, shared, until};

#[test]
fn redis_restarts_without_its_data() {
    let mut redis = Redis::start(&[]);
    let heard = Heard::open(&redis.url());
    let retry = retry(&heard.fleet);
    heard.reaches();
    until("a share", || heard.stats().share > 0.0);
    redis.kill();
    let said = heard.loses("unreachable");
    assert!(said.starts_with("Redis cannot be reached: "), "{said}");
    // Its share of the floor is still its own.
    retries(&retry);
    redis.start_again();
    heard.reaches_again();
    assert!(matches!(heard.next(), FleetEvent::Anew { .. }));
    retries(&retry);
    assert_eq!(heard.all(), []);
    let stats = heard.stats();
    assert!(stats.connected && stats.syncs.unreachable > 0 && stats.syncs.ok > 0, "{stats:?}");
    assert!(stats.last_error.is_some());
}

#[test]
fn redis_is_down_at_start() {
    let mut redis = Redis::start(&[]);
    redis.kill();
    let heard = Heard::open(&redis.url());
    let retry = retry(&heard.fleet);
    heard.loses("unreachable");
    assert_eq!(retry.run_blocking(|_| Ok::<_, std::io::Error>(7)).unwrap(), 7);
    redis.start_again();
    heard.reaches_again();
    retries(&retry);
}

#[test]
fn the_ledger_is_deleted() {
    let redis = Redis::start(&[]);
    let heard = Heard::open(&redis.url());
    let retry = retry(&heard.fleet);
    heard.reaches();
    let _: () = redis.command(&["FLUSHALL"]);
    assert!(matches!(heard.next(), FleetEvent::Anew { .. }));
    retries(&retry);
    assert_eq!(heard.all(), []);
}

#[test]
fn the_script_is_evicted() {
    let redis = Redis::start(&[]);
    let heard = Heard::open(&redis.url());
    let retry = retry(&heard.fleet);
    heard.reaches();
    for _ in 0..5 {
        let _: () = redis.command(&["SCRIPT", "FLUSH"]);
        let before = heard.stats().syncs.ok;
        until("asked again", || heard.stats().syncs.ok > before);
    }
    retries(&retry);
    assert_eq!(heard.all(), []);
}

#[test]
fn out_of_memory() {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]);
    let heard = Heard::open(&redis.url());
    let retry = retry(&heard.fleet);
    heard.reaches();
    let _: () = redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let said = heard.loses("refused");
    assert!(said.starts_with("Redis refuses with OOM: "), "{said}");
    retries(&retry);
    let _: () = redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    heard.reaches_again();
    assert!(heard.stats().syncs.refused > 0);
}

#[test]
fn redis_is_a_read_only_replica() {
    let (redis, primary) = (Redis::start(&[]), Redis::start(&[]));
    let heard = Heard::open(&redis.url());
    let _retry = retry(&heard.fleet);
    heard.reaches();
    let _: () = redis.command(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    let said = heard.loses("refused");
    assert!(said.contains("READONLY"), "{said}");
    let _: () = redis.command(&["REPLICAOF", "NO", "ONE"]);
    heard.reaches_again();
}

#[test]
fn the_key_has_another_type() {
    let (url, name) = (shared(), name());
    let key = format!("redial:fleet:{name}");
    let _: () = command(&url, &["SET", &key, "a song"]);
    let heard = Heard::draft(Fleet::draft(&url, &name));
    let retry = retry(&heard.fleet);
    let well = retry.clone().scope("elsewhere");
    let lost = loop {
        match heard.next() {
            FleetEvent::Lost { ledger, trouble } => break (ledger, trouble),
            FleetEvent::Reached { ledger, .. } => assert_ne!(ledger, name),
            other => panic!("{other}"),
        }
    };
    assert_eq!(lost.0, name);
    assert!(lost.1.to_string().contains("WRONGTYPE"), "{}", lost.1);
    retries(&well);
    let left: String = command(&url, &["GET", &key]);
    assert_eq!(left, "a song", "it is somebody else's");
    let _: () = command(&url, &["DEL", &key]);
    until("well", || heard.stats().connected);
    retries(&retry);
}

/// Numbers that make no sense are begun anew, and what is of another type is somebody else's.
#[test]
fn the_ledger_is_corrupt() {
    let (url, name) = (shared(), name());
    let key = format!("redial:fleet:{name}");
    let mut connection = redis::Client::open(&*url).unwrap().get_connection().unwrap();
    let mut nonsense = b"redial1".to_vec();
    nonsense.extend([f64::NAN, -1.0, 1e300, 7.0].repeat(8).into_iter().flat_map(f64::to_le_bytes));
    let _: () = redis::cmd("SET").arg(&key).arg(&nonsense[..]).query(&mut connection).unwrap();
    let heard = Heard::draft(Fleet::draft(&url, &name));
    let instance = retry(&heard.fleet);
    assert_eq!(heard.reaches(), 1);
    retries(&instance);

    let name = format!("{name}/other");
    let _: () = command(&url, &["HSET", &format!("redial:fleet:{name}"), "epoch", "yesterday"]);
    let heard = Heard::draft(Fleet::draft(&url, &name));
    let _retry = retry(&heard.fleet);
    assert!(heard.loses("refused").starts_with("Redis refuses with WRONGTYPE: "));
}

/// A window of a microsecond has slices without end, and Redis does nothing else while a script runs.
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
    let heard = Heard::draft(Fleet::draft(&redis.url(), &name));
    let instance = retry(&heard.fleet);
    heard.reaches();
    retries(&instance);
}

#[test]
fn the_wrong_password() {
    let redis = Redis::start(&["--requirepass", "right"]);
    let at = |user: &str| format!("redis://{user}127.0.0.1:{}", redis.port);
    for user in ["", ":wrong@", "nobody:right@"] {
        let heard = Heard::open(&at(user));
        let retry = retry(&heard.fleet);
        let said = heard.loses("refused");
        let code = if user.is_empty() { "NOAUTH" } else { "WRONGPASS" };
        assert!(said.contains(code) && !said.contains("right@"), "{said}");
        fails(&retry);
    }
    for user in [":right@", "default:right@"] {
        let heard = Heard::open(&at(user));
        let _retry = retry(&heard.fleet);
        heard.reaches();
    }
}

/// Says the same to every command, or goes when it hears the first.
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
        let heard = Heard::open(&server(says, stays));
        let retry = retry(&heard.fleet);
        let said = heard.loses(what);
        assert!(said.len() < 400, "{said}");
        assert_eq!(retry.run_blocking(|_| Ok::<_, std::io::Error>(7)).unwrap(), 7);
        assert_eq!(fails(&retry), 1, "nothing is earned yet");
    }
}

/// Fifty instances wait for a Redis that is gone. When it comes back they come to it over some time.
#[test]
fn clients_do_not_reconnect_at_the_same_time() {
    let port = free_port();
    let url = format!("redis://127.0.0.1:{port}");
    let fleets: Vec<Heard> = (0..50).map(|_| Heard::open(&url)).collect();
    let _instances: Vec<_> = fleets.iter().map(|heard| retry(&heard.fleet)).collect();
    fleets.iter().for_each(|heard| drop(heard.loses("unreachable")));
    until("waits are long", || fleets.iter().all(|it| it.stats().syncs.unreachable >= 5));
    // It counts who comes, and when.
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
    assert!(before >= 50, "all come: {in_tenth:?}");
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
