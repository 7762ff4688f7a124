//! Calls whose retries a fleet pays for.

use std::net::TcpListener;
use std::time::Duration;

use redial::admit::budget::{Budget, TokenBudget};
use redial::decide::{Class, Failure, Outcome};
use redial::{Error, Fleet, Policy, Retry, Stop};

use super::support::{
    LONG, ObservedFleet, Redis, WAIT, command, fails, free_port, name, policy, retries, retry,
    shared, until, window,
};

#[test]
fn a_failed_call_gets_its_lease_during_the_backoff() {
    let observed = ObservedFleet::open(&shared());
    let retry = retry(&observed.fleet);
    assert_eq!(observed.reaches(), 1);
    retries(&retry);
    assert!(observed.stats().leased >= 1);
    assert_eq!(observed.all(), []);
}

/// A lease expires after 250 to 500 ms here.
#[test]
fn a_retry_that_outlives_its_lease_gets_another() {
    let observed = ObservedFleet::open(&shared());
    let policy = policy(window(100), Duration::from_millis(620));
    let retry = Retry::new(policy).fleet(&observed.fleet).unwrap();
    observed.reaches();
    retries(&retry);
}

#[tokio::test]
async fn a_retry_that_outlives_its_lease_gets_another_on_tokio() {
    let observed = ObservedFleet::open(&shared());
    let retry = retry(&observed.fleet).idempotent();
    observed.reaches();
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

/// An instance that has been promised no share has none, and ten calls earn one retry.
#[test]
fn an_instance_that_never_reached_redis_has_no_floor() {
    let observed = ObservedFleet::open(&format!("redis://127.0.0.1:{}", free_port()));
    let retry = Retry::new(policy(window(1000), WAIT)).fleet(&observed.fleet).unwrap();
    observed.loses("unreachable");
    let (mut calls, mut sent) = (0, 0);
    until("three retries", || {
        calls += 1;
        sent += fails(&retry) - 1;
        assert!(sent * 10 <= calls, "{sent} retries of {calls} calls");
        sent == 3
    });
    assert!(!observed.stats().connected);
}

/// A first attempt only adds to a counter, and failures wait no longer than their backoff.
#[test]
fn calls_continue_while_redis_hangs() {
    let redis = Redis::start(&[]);
    let observed = ObservedFleet::open(&redis.url());
    let retry =
        Retry::new(policy(window(1), Duration::from_millis(1))).fleet(&observed.fleet).unwrap();
    observed.reaches();
    redis.signal("-STOP");
    for call in 0..1_000 {
        assert_eq!(retry.run_blocking(|_| Ok::<_, std::io::Error>(call)).unwrap(), call);
        fails(&retry);
    }
    assert_eq!(observed.loses("timeout"), "Redis does not answer in time");
    assert!(!observed.stats().connected);
    redis.signal("-CONT");
    observed.reaches_again();
}

#[test]
fn destinations_have_separate_ledgers_over_one_connection() {
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
    assert_eq!(
        connections.lines().count(),
        2,
        "the fleet's and that of this command: {connections}"
    );
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
    let observed = ObservedFleet::open(&shared());
    let budget = observed.fleet.budget(window(100)).unwrap();
    observed.reaches();
    until("a withdrawal", || {
        budget.deposit();
        budget.try_withdraw()
    });
    assert!(observed.stats().leased >= 1);
    let retry = Retry::new(policy(window(100), WAIT)).budget(&budget);
    retries(&retry);
    let message =
        observed.fleet.budget(window(100).ttl(Duration::from_secs(61))).unwrap_err().to_string();
    assert!(message.starts_with("budget.window.ttl is 61s"), "{message}");
}

#[test]
fn only_a_window_can_be_shared() {
    let fleet = Fleet::open(&shared(), &name()).unwrap();
    let draft = Policy::standard().edit();
    let tokens = draft.budget(Budget::Tokens(TokenBudget::default())).build().unwrap();
    let message =
        "budget is tokens, but must be a window, which is the only kind that a fleet can share";
    assert_eq!(Retry::new(tokens.clone()).fleet(&fleet).unwrap_err().to_string(), message);
    assert_eq!(fleet.one_shot(&tokens).unwrap_err().to_string(), message);
}

#[test]
fn invalid_settings_are_reported_at_open() {
    let check = |url: &str, name: &str, message: &str| {
        assert_eq!(Fleet::open(url, name).unwrap_err().to_string(), message);
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
    let message = "fleet.timeout is 0s, but must be 1ms to 60s";
    assert_eq!(draft.open().unwrap_err().to_string(), message);
    let draft = Fleet::draft("redis://h", "a").prefix("a b");
    assert!(draft.open().unwrap_err().to_string().starts_with("fleet.prefix is \"a b\""));
    assert!(Fleet::open("redis://h", &"x".repeat(128)).is_ok());
}

/// Counts threads by name; only one test at a time has this prefix.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "redial-fleet").count()
}

/// Runs in a separate process, in which no other test has fleets.
#[test]
fn a_dropped_fleet_leaves_no_thread_or_connection() {
    if std::env::var_os("REDIAL_FLEET_ALONE").is_none() {
        let this = std::env::current_exe().unwrap();
        let name = "fleet::retry::a_dropped_fleet_leaves_no_thread_or_connection";
        let output = std::process::Command::new(this)
            .args(["--exact", name, "--nocapture"])
            .env("REDIAL_FLEET_ALONE", "1")
            .output();
        let output = output.unwrap();
        let message = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && message.contains("1 passed"), "{output:?}");
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
fn leaving_returns_the_share_and_ends_retries() {
    let (url, name) = (shared(), name());
    let stays = ObservedFleet::draft(Fleet::draft(&url, &name));
    let _retry = retry(&stays.fleet);
    stays.reaches();
    let leaves = ObservedFleet::draft(Fleet::draft(&url, &name));
    let gone = retry(&leaves.fleet);
    until("two members", || leaves.stats().members == 2 && stays.stats().members == 2);
    assert!(leaves.fleet.leave());
    assert!(leaves.fleet.leave(), "a second call returns the same");
    until("one member, all the floor", || {
        let stats = stays.stats();
        stats.members == 1 && stats.share > 0.999
    });
    until("leases end", || fails(&gone) == 1);
    let refused =
        gone.classify(|_: &Result<(), ()>| -> Outcome { Failure::new(Class::Transient).into() });
    let refused: Result<(), Error<()>> = refused.idempotent().run_blocking(|_| Err(()));
    assert_eq!(refused.unwrap_err().reason(), Stop::Budget);
    // Clones, and instances that join later, work without it.
    assert!(Retry::new(policy(window(1), WAIT)).fleet(&leaves.fleet).is_ok());
}

/// Its retries get no leases any more, so none waits for one: the backoff of this one is an hour.
#[test]
fn leaving_does_not_wait_for_a_redis_that_hangs() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let observed = ObservedFleet::open(&format!("redis://{}", listener.local_addr().unwrap()));
    let waits = policy(window(100), Duration::from_secs(3_600));
    let retry = Retry::new(waits).fleet(&observed.fleet).unwrap();
    let _hangs = listener.accept().unwrap();
    assert!(!observed.fleet.leave());
    assert_eq!(fails(&retry), 1);
}

#[test]
fn a_dropped_instance_leaves_while_the_fleet_stays() {
    let observed = ObservedFleet::open(&shared());
    let (one, two) = (retry(&observed.fleet), retry(&observed.fleet));
    until("two", || observed.fleet.stats().iter().any(|it| it.members == 2));
    drop(two);
    until("one", || observed.fleet.stats().iter().all(|it| it.members == 1));
    drop(one);
    until("none", || observed.fleet.stats().is_empty());
}

#[test]
fn a_one_shot_instance_deposits_its_earnings_and_leases_its_retry() {
    let (url, name) = (shared(), name());
    let observed = ObservedFleet::draft(Fleet::draft(&url, &name));
    let policy = policy(window(0), WAIT);
    let instance = observed.fleet.one_shot(&policy).unwrap();
    // Nothing was deposited: the wait ends with the ledger's reply.
    let (guards, now) = (instance.guards(), instance.now());
    guards.deposit(0, 9, now);
    let lease = guards.lease().unwrap();
    assert!(instance.wait(LONG), "no retry needs a lease");
    observed.reaches();
    until("the ledger has it", || command(&url, &["EXISTS", &format!("redial:fleet:{name}")]));
    assert_eq!((lease.calls(), lease.taken()), (9, 0));
    drop(instance);
    assert!(observed.fleet.leave());
    // Ten calls of any instance earn a retry.
    let other = ObservedFleet::draft(Fleet::draft(&url, &name));
    let instance = other.fleet.one_shot(&policy).unwrap();
    instance.guards().deposit(0, 1, instance.now());
    other.reaches();
    let mut call = redial_core::Call::new(&policy, instance.now(), redial_core::Deadline::NONE);
    let request = redial_core::Request {
        safety: redial::decide::Safety::Keyed,
        ..redial_core::Request::default()
    };
    let cx = redial_core::Context {
        policy: &policy,
        guards: instance.guards(),
        observer: None,
        request,
    };
    let permit = call.admit(&cx, instance.now()).unwrap();
    let failure = Failure::new(Class::Transient).into();
    let verdict = call.settle(&cx, permit, &failure, instance.now(), || 0);
    let redial_core::Verdict::Wait(_) = verdict else { panic!("{verdict:?}") };
    assert!(instance.wait(LONG));
    assert_eq!(other.stats().members, 0, "a one-shot instance is not a member");
    assert!(other.stats().leased >= 1, "{:?}", other.stats());
}
