//! Calls whose retries a fleet pays for.

use std::net::TcpListener;
use std::time::Duration;

use redial::admit::budget::{Budget, TokenBudget};
use redial::decide::{Class, Failure, Outcome};
use redial::{Error, Fleet, Policy, Retry, Stop};

use super::rig::{
    Heard, LONG, Redis, WAIT, command, fails, free_port, name, policy, retries, retry, shared,
    until, window,
};

#[test]
fn a_call_that_fails_finds_its_lease_during_the_backoff() {
    let heard = Heard::open(&shared());
    let retry = retry(&heard.fleet);
    assert_eq!(heard.reaches(), 1);
    retries(&retry);
    assert!(heard.stats().leased >= 1);
    assert_eq!(heard.all(), []);
}

/// A lease lives for a quarter of a second to half of one here.
#[test]
fn a_retry_that_waits_for_longer_than_a_lease_lives_gets_another() {
    let heard = Heard::open(&shared());
    let policy = policy(window(100), Duration::from_millis(620));
    let retry = Retry::new(policy).fleet(&heard.fleet).unwrap();
    heard.reaches();
    retries(&retry);
}

#[tokio::test]
async fn also_one_on_tokio() {
    let heard = Heard::open(&shared());
    let retry = retry(&heard.fleet).idempotent();
    heard.reaches();
    let failing =
        retry.classify(|_: &Result<(), ()>| -> Outcome { Failure::new(Class::Transient).into() });
    loop {
        let mut attempts = 0;
        let call = failing.run(|_| {
            attempts += 1;
            async { Err::<(), ()>(()) }
        });
        call.await.unwrap_err();
        if attempts == 2 {
            return;
        }
    }
}

/// An instance that was never told of a share has none, and what ten calls earn is a retry.
#[test]
fn an_instance_that_never_reached_redis_has_no_floor() {
    let heard = Heard::open(&format!("redis://127.0.0.1:{}", free_port()));
    let retry = Retry::new(policy(window(1000), WAIT)).fleet(&heard.fleet).unwrap();
    heard.loses("unreachable");
    let (mut calls, mut sent) = (0, 0);
    until("three retries", || {
        calls += 1;
        sent += fails(&retry) - 1;
        assert!(sent * 10 <= calls, "{sent} retries of {calls} calls");
        sent == 3
    });
    assert!(!heard.stats().connected);
}

/// There is nothing to wait on: a first attempt adds to a counter. Neither do failures wait for more than their backoff.
#[test]
fn calls_go_on_while_redis_hangs() {
    let redis = Redis::start(&[]);
    let heard = Heard::open(&redis.url());
    let retry =
        Retry::new(policy(window(1), Duration::from_millis(1))).fleet(&heard.fleet).unwrap();
    heard.reaches();
    redis.signal("-STOP");
    for call in 0..1_000 {
        assert_eq!(retry.run_blocking(|_| Ok::<_, std::io::Error>(call)).unwrap(), call);
        fails(&retry);
    }
    assert_eq!(heard.loses("timeout"), "Redis does not answer in time");
    assert!(!heard.stats().connected);
    redis.signal("-CONT");
    heard.reaches_again();
}

#[test]
fn destinations_have_ledgers_of_their_own_over_one_connection() {
    let redis = Redis::start(&[]);
    let fleet = Fleet::open(&redis.url(), "shop").unwrap();
    let retry = retry(&fleet);
    let (one, two) = (retry.clone().scope("pay/v1"), retry.clone().scope("a b"));
    [retry.clone().scope("pay/v1"), one].iter().for_each(|it| assert!(fails(it) <= 2));
    until("all answer", || fleet.stats().len() == 3 && fleet.stats().iter().all(|it| it.connected));
    let mut keys: Vec<String> = redis.command(&["KEYS", "*"]);
    keys.sort();
    assert_eq!(keys, ["redial:fleet:shop", "redial:fleet:shop/a%20b", "redial:fleet:shop/pay/v1"]);
    for key in &keys {
        let left: i64 = redis.command(&["PTTL", key]);
        assert!((1..=1_200_000).contains(&left), "{left}");
    }
    retries(&two);
    let connections: String = redis.command(&["CLIENT", "LIST"]);
    assert_eq!(connections.lines().count(), 2, "ours and that of this question: {connections}");
    let leased = |name: &str| fleet.stats().iter().find(|it| it.ledger == name).unwrap().leased;
    assert!(leased("shop/a%20b") > 0);
    assert_eq!(leased("shop"), 0);
}

#[test]
fn options_set_before_the_fleet_count_too() {
    let redis = Redis::start(&[]);
    let fleet = Fleet::open(&redis.url(), "shop").unwrap();
    let original = Retry::new(policy(window(100), WAIT));
    let retry = original.clone().scope("a b").fleet(&fleet).unwrap();
    until("both answer", || {
        fleet.stats().len() == 2 && fleet.stats().iter().all(|it| it.connected)
    });
    retries(&retry);
    let leased = |name: &str| fleet.stats().iter().find(|it| it.ledger == name).unwrap().leased;
    assert!(leased("shop/a%20b") > 0);
    assert_eq!(leased("shop"), 0);
    original.set_enabled(false);
    assert_eq!(fails(&retry), 1, "a switch of all clones");
}

/// The first withdrawal requests the lease that a later one finds.
#[test]
fn code_without_a_retry_shares_the_budget_of_the_fleet() {
    let heard = Heard::open(&shared());
    let budget = heard.fleet.budget(window(100)).unwrap();
    heard.reaches();
    until("a withdrawal", || {
        budget.deposit();
        budget.try_withdraw()
    });
    assert!(heard.stats().leased >= 1);
    let retry = Retry::new(policy(window(100), WAIT)).budget(&budget);
    retries(&retry);
    let said =
        heard.fleet.budget(window(100).ttl(Duration::from_secs(61))).unwrap_err().to_string();
    assert!(said.starts_with("budget.window.ttl is 61s"), "{said}");
}

#[test]
fn only_a_window_can_be_shared() {
    let fleet = Fleet::open(&shared(), &name()).unwrap();
    let draft = Policy::standard().edit();
    let tokens = draft.budget(Budget::Tokens(TokenBudget::default())).build().unwrap();
    let said =
        "budget is tokens, but must be a window, which is the only one that a fleet can share";
    assert_eq!(Retry::new(tokens.clone()).fleet(&fleet).unwrap_err().to_string(), said);
    assert_eq!(fleet.guest(&tokens).unwrap_err().to_string(), said);
}

#[test]
fn what_is_wrong_is_said_at_once() {
    let check = |url: &str, name: &str, said: &str| {
        assert_eq!(Fleet::open(url, name).unwrap_err().to_string(), said);
    };
    let letters = "letters, digits and . _ - : /, at most 128 of them";
    check("redis://h", "a b", &format!("fleet.name is \"a b\", but must be {letters}"));
    check("redis://h", "", &format!("fleet.name is \"\", but must be {letters}"));
    let long = "x".repeat(129);
    check("redis://h", &long, &format!("fleet.name is \"{long}\", but must be {letters}"));
    let address = "redis://[user:password@]host[:port][/database], or rediss:// for TLS";
    for (url, shown) in [
        ("", ""),
        ("localhost", "localhost"),
        ("http://me:secret@host", "http://…@host"),
        ("redis://me:secret@host:port", "redis://…@host:port"),
        ("redis://host/database", "redis://host/database"),
        ("me:secret@host", "…@host"),
        ("redis+unix:///tmp/redis?pass=secret&db=x", "redis+unix:///tmp/redis"),
    ] {
        check(url, "a", &format!("fleet.url is {shown}, but must be {address}"));
    }
    let draft = Fleet::draft("redis://h", "a").timeout(Duration::ZERO);
    let said = "fleet.timeout is 0s, but must be 1ms to 60s";
    assert_eq!(draft.open().unwrap_err().to_string(), said);
    let draft = Fleet::draft("redis://h", "a").prefix("a b");
    assert!(draft.open().unwrap_err().to_string().starts_with("fleet.prefix is \"a b\""));
    assert!(Fleet::open("redis://h", &"x".repeat(128)).is_ok());
}

/// The thread's name, so that others of this process are not counted; one test at a time has this prefix.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "redial-fleet").count()
}

/// Runs in a process of its own, where no other test has fleets.
#[test]
fn nothing_is_left_of_a_fleet() {
    if std::env::var_os("REDIAL_FLEET_ALONE").is_none() {
        let this = std::env::current_exe().unwrap();
        let name = "fleet::retry::nothing_is_left_of_a_fleet";
        let output = std::process::Command::new(this)
            .args(["--exact", name, "--nocapture"])
            .env("REDIAL_FLEET_ALONE", "1")
            .output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
        return;
    }
    let (url, gone) = (shared(), format!("redis://127.0.0.1:{}", free_port()));
    for url in [&url, &gone] {
        let fleets: Vec<Fleet> = (0..20).map(|_| Fleet::open(url, &name()).unwrap()).collect();
        let instances: Vec<Retry> = fleets.iter().map(retry).collect();
        let scoped: Vec<Retry> = instances.iter().map(|it| it.clone().scope("a")).collect();
        until("threads", || threads() == 20);
        drop((fleets, instances));
        assert_eq!(threads(), 20, "in use");
        drop(scoped);
        until("no threads", || threads() == 0);
    }
}

#[test]
fn who_leaves_gives_back_its_share_and_retries_no_more() {
    let (url, name) = (shared(), name());
    let stays = Heard::draft(Fleet::draft(&url, &name));
    let _retry = retry(&stays.fleet);
    stays.reaches();
    let leaves = Heard::draft(Fleet::draft(&url, &name));
    let gone = retry(&leaves.fleet);
    until("two members", || leaves.stats().members == 2 && stays.stats().members == 2);
    assert!(leaves.fleet.leave());
    assert!(leaves.fleet.leave(), "a second time says the same");
    until("one member, all the floor", || {
        let stats = stays.stats();
        stats.members == 1 && stats.share > 0.999
    });
    until("leases end", || fails(&gone) == 1);
    let refused =
        gone.classify(|_: &Result<(), ()>| -> Outcome { Failure::new(Class::Transient).into() });
    let refused: Result<(), Error<()>> = refused.idempotent().run_blocking(|_| Err(()));
    assert_eq!(refused.unwrap_err().reason(), Stop::Budget);
    // A clone of it, and what joins it later, go on without it.
    assert!(Retry::new(policy(window(1), WAIT)).fleet(&leaves.fleet).is_ok());
}

/// Nobody pays for its retries any more, so none waits for it: the backoff of this one is an hour.
#[test]
fn who_leaves_a_redis_that_hangs_does_not_wait_for_a_lease() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let heard = Heard::open(&format!("redis://{}", listener.local_addr().unwrap()));
    let waits = policy(window(100), Duration::from_secs(3_600));
    let retry = Retry::new(waits).fleet(&heard.fleet).unwrap();
    let _hangs = listener.accept().unwrap();
    assert!(!heard.fleet.leave());
    assert_eq!(fails(&retry), 1);
}

#[test]
fn an_instance_that_is_dropped_leaves_although_the_fleet_stays() {
    let heard = Heard::open(&shared());
    let (one, two) = (retry(&heard.fleet), retry(&heard.fleet));
    until("two", || heard.fleet.stats().iter().any(|it| it.members == 2));
    drop(two);
    until("one", || heard.fleet.stats().iter().all(|it| it.members == 1));
    drop(one);
    until("none", || heard.fleet.stats().is_empty());
}

#[test]
fn a_guest_deposits_what_its_call_earned_and_leases_its_retry() {
    let (url, name) = (shared(), name());
    let heard = Heard::draft(Fleet::draft(&url, &name));
    let policy = policy(window(0), WAIT);
    let guest = heard.fleet.guest(&policy).unwrap();
    // Nothing was ever deposited: it is told so, and waits for no longer than that.
    let (guards, now) = (guest.guards(), guest.now());
    guards.deposit(0, 9, now);
    let lease = guards.lease().unwrap();
    assert!(guest.wait(LONG), "nobody rang");
    heard.reaches();
    until("the ledger has it", || command(&url, &["EXISTS", &format!("redial:fleet:{name}")]));
    assert_eq!((lease.calls(), lease.taken()), (9, 0));
    drop(guest);
    assert!(heard.fleet.leave());
    // Ten calls earn a retry, whoever made them.
    let other = Heard::draft(Fleet::draft(&url, &name));
    let guest = other.fleet.guest(&policy).unwrap();
    guest.guards().deposit(0, 1, guest.now());
    other.reaches();
    let mut call = redial_core::Call::new(&policy, guest.now(), redial_core::NEVER);
    let request = redial_core::Request {
        safety: redial::decide::Safety::Keyed,
        ..redial_core::Request::default()
    };
    let cx =
        redial_core::Context { policy: &policy, guards: guest.guards(), observer: None, request };
    let permit = call.admit(&cx, guest.now()).unwrap();
    let failure = Failure::new(Class::Transient).into();
    let verdict = call.settle(&cx, permit, &failure, guest.now(), || 0);
    let redial_core::Verdict::Wait(_) = verdict else { panic!("{verdict:?}") };
    assert!(guest.wait(LONG));
    assert_eq!(other.stats().members, 0, "guests are no members");
    assert!(other.stats().leased >= 1, "{:?}", other.stats());
}
