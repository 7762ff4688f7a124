//! The store of a run with two queues: deliveries go to a receiver, and commands write to a directory.

use std::fs;
use std::process::Command;
use std::sync::Mutex;

use redial_queue::postgres::tokio_postgres::{NoTls, connect};
use xtask::postgres::Postgres;

use super::plan::Kind;
use crate::queue_faults::sink::Sink;
use crate::queue_faults::{LEASE_MILLIS, Lab};

/// The payload appears in one step, under a name with the attempt and the idempotency key. The limits and the clock of a
/// worker are not those of its commands. A worker that is killed during the sleep has not settled what has taken effect.
const SCRIPT: &str = "unset LD_PRELOAD; ulimit -S -f unlimited; cat > tmp/$$ && \
                      mv tmp/$$ effects/$REDIAL_ATTEMPT.$REDIAL_IDEMPOTENCY_KEY.$$ && sleep 0.02";

/// A few jobs write more than a worker keeps for a stderr that is not read.
const NOISE: &str = "printf %30000s x >&2; ";

/// How long the receiver has had a delivery when it answers, in milliseconds.
const ANSWER_AFTER: u64 = 20;

pub(super) struct Site {
    deliveries: Lab,
    commands: Lab,
    /// A Postgres that may be killed.
    server: Mutex<Option<Postgres>>,
    /// The name of all connections of this run to a Postgres.
    application: String,
}

impl Site {
    pub(super) fn on_sqlite() -> Self {
        let lab = Lab::new("prove");
        let store = lab.store.clone();
        Self::new(lab, &store, String::new())
    }

    /// On the Postgres that all tests share, or on one of its own, which may be killed.
    pub(super) fn on_postgres(own: bool) -> Self {
        let server =
            own.then(|| Postgres::start().expect("needs Postgres: run `cargo xtask setup`"));
        let url = server.as_ref().map_or_else(crate::postgres, Postgres::url);
        let application = format!("prove-{}", redial::Key::fresh());
        let store = format!("{url}?application_name={application}");
        let site = Self::new(Lab::new("prove"), &store, application);
        Self { server: Mutex::new(server), ..site }
    }

    fn new(lab: Lab, store: &str, application: String) -> Self {
        let queue = |name| format!("{name}-{}", redial::Key::fresh());
        let sink = Sink::start_slow(ANSWER_AFTER);
        let deliveries = Lab { store: store.to_owned(), queue: queue("deliveries"), sink, ..lab };
        let lab = Lab::new("prove-commands");
        for folder in ["tmp", "effects"] {
            fs::create_dir(lab.scratch.path(folder)).unwrap();
        }
        let commands = Lab { store: store.to_owned(), queue: queue("commands"), ..lab };
        Self { deliveries, commands, server: Mutex::new(None), application }
    }

    pub(super) fn may_restart(&self) -> bool {
        self.server.lock().unwrap().is_some()
    }

    pub(super) fn lab(&self, kind: Kind) -> &Lab {
        match kind {
            Kind::Deliveries => &self.deliveries,
            Kind::Commands => &self.commands,
        }
    }

    /// How often jobs have taken effect; of commands, since their effects were last collected.
    pub(super) fn effects(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Deliveries => self.deliveries.sink.count(),
            Kind::Commands => {
                fs::read_dir(self.commands.scratch.path("effects")).unwrap().count() as u64
            }
        }
    }

    /// Removes what commands have left, and returns the names and contents.
    pub(super) fn collect(&self) -> Vec<(String, Vec<u8>)> {
        let files = fs::read_dir(self.commands.scratch.path("effects")).unwrap().flatten();
        let taken = files.map(|file| {
            let content = fs::read(file.path()).unwrap();
            fs::remove_file(file.path()).unwrap();
            (file.file_name().into_string().unwrap(), content)
        });
        taken.collect()
    }

    pub(super) fn add_lines(&self, kind: Kind) -> Command {
        match kind {
            Kind::Deliveries => self.deliveries.add(),
            Kind::Commands => {
                let mut add = self.commands.queue("add");
                add.arg("--lines");
                add
            }
        }
    }

    /// Enqueues one job, with the payload from a file.
    pub(super) fn add_one(&self, kind: Kind, payload: &str) -> Command {
        let lab = self.lab(kind);
        match kind {
            Kind::Deliveries => {
                let mut send = lab.queue("send");
                send.args(["-d", &format!("@{payload}"), &lab.sink.url()]);
                send
            }
            Kind::Commands => {
                let mut add = lab.queue("add");
                add.args(["--payload", &format!("@{payload}")]);
                add
            }
        }
    }

    pub(super) fn work(&self, kind: Kind, noisy: bool) -> Command {
        let lab = self.lab(kind);
        match kind {
            Kind::Deliveries => {
                lab.work(&["--log", "json", "--workers", "4", "--per-destination", "4"])
            }
            Kind::Commands => {
                let script = format!("{}{SCRIPT}", if noisy { NOISE } else { "" });
                let mut work = lab.work(&["--log", "json", "--workers", "4", "--exec", &script]);
                work.current_dir(&lab.scratch.0);
                work
            }
        }
    }

    /// Closes all connections of this run from the server's side, and returns how many there were.
    pub(super) fn cut_connections(&self) -> i64 {
        let (url, _) = self.deliveries.store.split_once('?').unwrap();
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE application_name = $1";
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client.query_one(sql, &[&self.application]).await.unwrap().get(0)
        })
    }

    /// Kills the server, and starts it again after longer than a lease.
    pub(super) fn restart_server(&self) {
        let mut server = self.server.lock().unwrap();
        let server = server.as_mut().unwrap();
        server.kill().unwrap();
        super::pause(LEASE_MILLIS + 100);
        server.start_again().unwrap();
    }
}
