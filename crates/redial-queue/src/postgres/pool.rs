//! A connection can break at any moment, and a thousand workers must not open a thousand of them. So there are a few, each lent
//! to one caller at a time; one that did not come back in order is closed, and the next caller opens another.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redial::Retry;
use redial_core::Policy;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::types::{FromSqlOwned, ToSql};
use tokio_postgres::{Client, Config, Error, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error;
use super::tls::Trust;
use crate::durable::StoreError;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How much longer than the server we wait for an answer that the server should have given up by then.
const GRACE: Duration = Duration::from_secs(2);
/// How often a step is made again that was undone because another one was in its way.
const COLLISIONS: u32 = 5;

/// What a call is given.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Connections to one server, and how to make more.
pub(super) struct Pool {
    config: Config,
    tls: MakeRustlsConnect,
    retry: Retry,
    /// Quoted.
    schema: String,
    /// How long a statement may take.
    timeout: Duration,
    lendable: Semaphore,
    /// Fewer than may be lent: the others are lent, or not open.
    idle: Mutex<Vec<Connection>>,
}

/// An open connection, with the statements that it has prepared. They are its own: another one prepares them again.
pub(super) struct Connection {
    pub(super) client: Client,
    statements: HashMap<&'static str, Statement>,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The server may not hear the farewell of a client that was cut off, and the driver would wait for it.
        self.driver.abort();
    }
}

/// A connection that somebody has. Unless it is given back it is closed.
pub(super) struct Lent<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    /// No connection yet.
    pub(super) fn new(
        url: &str,
        schema: &str,
        connections: usize,
        timeout: Duration,
    ) -> Result<Self, StoreError> {
        let (url, trust) = Trust::split(url)?;
        let mut config: Config = url.parse().map_err(|error: Error| {
            let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            StoreError::Invalid(format!(
                "this is no URL of a Postgres: {why}; write postgres://USER:PASSWORD@HOST:PORT/DATABASE"
            ))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            let why = "the URL names no host; write postgres://USER:PASSWORD@HOST:PORT/DATABASE";
            return Err(StoreError::Invalid(why.to_owned()));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("redial");
        }
        config.keepalives_idle(Duration::from_secs(30));
        config.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
        config.tcp_user_timeout(timeout + GRACE);
        let tls = trust.connector()?;
        Ok(Self {
            config,
            tls,
            retry: Retry::new(Policy::standard()).idempotent(),
            schema: format!("\"{schema}\""),
            timeout,
            lendable: Semaphore::new(connections.max(1)),
            idle: Mutex::new(Vec::new()),
        })
    }

    /// The schema, quoted.
    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// Where it connects to, without the password.
    pub(super) fn place(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        });
        let hosts: Vec<_> = hosts.collect();
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let user = self.config.get_user().unwrap_or("?");
        format!("{user}@{}:{port}/{}", hosts.join(","), self.config.get_dbname().unwrap_or(user))
    }

    /// Calls one of our functions, as a transaction of its own.
    pub(super) async fn call(
        &self,
        function: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut again = COLLISIONS;
        loop {
            let mut lent = self.lend().await?;
            match self.within(lent.get()?.call(&self.schema, function, params)).await? {
                Ok(rows) => {
                    lent.give_back();
                    return Ok(rows);
                }
                Err(error) => {
                    // What a statement says about itself does not concern the connection.
                    if error.as_db_error().is_some_and(|db| db.severity() == "ERROR") {
                        lent.give_back();
                    }
                    if !error::collided(&error) || again == 0 {
                        return Err(error::store(&error));
                    }
                    again -= 1;
                }
            }
        }
    }

    /// Runs what has no parameters and no answer.
    pub(super) async fn run(&self, text: &str) -> Result<(), StoreError> {
        let mut lent = self.lend().await?;
        let done = self.within(lent.get()?.client.batch_execute(text)).await?;
        done.map_err(|error| error::store(&error))?;
        lent.give_back();
        Ok(())
    }

    /// Asks for one value.
    pub(super) async fn ask<T: FromSqlOwned>(&self, text: &str) -> Result<T, StoreError> {
        let mut lent = self.lend().await?;
        let row = self.within(lent.get()?.client.query_typed_one(text, &[])).await?;
        let value = row.and_then(|row| row.try_get(0)).map_err(|error| error::store(&error))?;
        lent.give_back();
        Ok(value)
    }

    /// Waits no longer than a statement may take: the network may have swallowed the answer.
    pub(super) async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, StoreError> {
        self.within_time(self.timeout, work).await
    }

    /// As [`within`](Self::within), for what may take another time.
    pub(super) async fn within_time<T>(
        &self,
        most: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        timeout(most + GRACE, work).await.map_err(|_| {
            StoreError::Unavailable(format!("{}: no answer within {most:?}", self.place()).into())
        })
    }

    /// A connection, when there is one.
    pub(super) async fn lend(&self) -> Result<Lent<'_>, StoreError> {
        let busy = |_| StoreError::Unavailable("all connections are busy".into());
        let permit = timeout(self.timeout + GRACE, self.lendable.acquire()).await.map_err(busy)?;
        let closed = |_| StoreError::Stopped("the pool is closed".to_owned());
        let permit = permit.map_err(closed)?;
        let connection = match self.idle_one() {
            Some(connection) => connection,
            None => {
                let opened = self.retry.run(|_| self.open()).await;
                opened.map_err(|error| match error.into_cause() {
                    Some(cause) => cause,
                    None => StoreError::Unavailable("the time to connect is over".into()),
                })?
            }
        };
        Ok(Lent { pool: self, connection: Some(connection), _permit: permit })
    }

    fn idle_one(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop() {
            if !connection.client.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    /// Opens a connection that drives itself.
    async fn open(&self) -> Result<Connection, StoreError> {
        let (client, connection) = self.connect().await?;
        let driver = tokio::spawn(connection).abort_handle();
        let connection = Connection { client, statements: HashMap::new(), driver };
        let limits = format!(
            "set statement_timeout = {}; set idle_in_transaction_session_timeout = {}; \
             set default_transaction_isolation = 'read committed'; set client_min_messages = warning",
            self.timeout.as_millis(),
            (self.timeout + GRACE).as_millis(),
        );
        let set = self.within(connection.client.batch_execute(&limits)).await?;
        set.map_err(|error| error::connecting(&error, &self.place()))?;
        Ok(connection)
    }

    /// Opens a connection that somebody else drives.
    pub(super) async fn connect(&self) -> Result<(Client, Wire), StoreError> {
        let opening = self.config.connect(self.tls.clone());
        // The driver's limit counts for each address and ends with the handshake of TCP.
        let opened = self.within_time(CONNECT * 2, opening).await?;
        let (client, wire) = opened.map_err(|error| {
            let plain = self.config.get_ssl_mode() == SslMode::Disable;
            let hint = if plain { "" } else { " (the URL can say sslmode=disable)" };
            match error::connecting(&error, &self.place()) {
                StoreError::Invalid(why) if why.contains("TLS") => StoreError::Invalid(why + hint),
                other => other,
            }
        })?;
        Ok((client, wire))
    }

    /// The engine that decides how often to try to connect.
    pub(super) fn retry(&self) -> &Retry {
        &self.retry
    }
}

/// What has to be driven for a client to work.
pub(super) type Wire = tokio_postgres::Connection<
    tokio_postgres::Socket,
    <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>>::Stream,
>;

impl Lent<'_> {
    /// The connection.
    pub(super) fn get(&mut self) -> Result<&mut Connection, StoreError> {
        let gone = || StoreError::Unavailable("the connection is closed".into());
        self.connection.as_mut().ok_or_else(gone)
    }

    /// For the next one.
    pub(super) fn give_back(mut self) {
        if let Some(connection) = self.connection.take().filter(|one| !one.client.is_closed()) {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

impl Connection {
    /// Calls one of our functions.
    pub(super) async fn call(
        &mut self,
        schema: &str,
        function: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, Error> {
        let statement = match self.statements.get(function) {
            Some(statement) => statement.clone(),
            None => {
                let text = calling(schema, function, params.len());
                let statement = self.client.prepare(&text).await?;
                self.statements.insert(function, statement.clone());
                statement
            }
        };
        self.client.query(&statement, params).await
    }
}

/// The statement that calls a function.
pub(super) fn calling(schema: &str, function: &str, params: usize) -> String {
    let mut text = format!("select * from {schema}.{function}(");
    for number in 1..=params {
        let _ = write!(text, "{}${number}", if number == 1 { "" } else { ", " });
    }
    text + ")"
}
