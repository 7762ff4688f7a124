//! A connection can break at any moment, and a thousand workers must not open a thousand of them. The pool opens a few and lends
//! each to one step at a time. A connection whose step did not end in order is closed.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redial::Retry;
use redial_core::schedule::Backoff;
use redial_core::{Draft, Preset};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::types::{FromSqlOwned, ToSql};
use tokio_postgres::{Client, Config, Error, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{self, StepError};
use super::tls::Trust;
use crate::durable::StoreError;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How much longer than the server we wait for an answer: by then the server should have cancelled the statement.
const GRACE: Duration = Duration::from_secs(2);

/// The arguments of a function.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Connections to one server.
pub(super) struct Pool {
    config: Config,
    tls: MakeRustlsConnect,
    connecting: Retry,
    /// Repeats calls that the server rolled back because of another transaction. It has no deadline: each attempt has its own
    /// time limit.
    conflicts: Retry,
    /// Quoted.
    schema: String,
    timeout: Duration,
    permits: Semaphore,
    /// Open connections that no step uses. There are fewer than permits: the others are lent, or not open.
    idle: Mutex<Vec<Connection>>,
}

/// An open connection and the statements prepared on it.
pub(super) struct Connection {
    pub(super) client: Client,
    statements: HashMap<&'static str, Statement>,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The driver would wait for the server to confirm the end, and a server that cannot be reached never does.
        self.driver.abort();
    }
}

/// A connection lent to a step. It is closed on drop unless the step returns it.
struct Lent<'a> {
    connection: Connection,
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    /// Connects on first use.
    pub(super) fn new(
        url: &str,
        schema: &str,
        connections: usize,
        timeout: Duration,
    ) -> Result<Self, StoreError> {
        let (url, trust) = Trust::split(url)?;
        let config = parse(&url, timeout)?;
        let tls = trust.connector()?;
        let backoff = Backoff::exponential(Duration::from_millis(10), Duration::from_millis(200));
        // Six attempts bound it; a budget would fail an enqueue in a burst of deadlocks.
        let policy = Draft::bare(6).backoff(backoff).build();
        let policy = policy.map_err(|invalid| StoreError::Invalid(invalid.to_string()))?;
        Ok(Self {
            config,
            tls,
            connecting: Retry::new(Preset::Standard01.into()).idempotent(),
            conflicts: Retry::new(policy).idempotent(),
            schema: format!("\"{schema}\""),
            timeout,
            permits: Semaphore::new(connections.max(1)),
            idle: Mutex::new(Vec::new()),
        })
    }

    /// The schema, quoted.
    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// Where it connects to, without the password.
    pub(super) fn address(&self) -> String {
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

    /// Calls one of our functions in a transaction of its own, and again after a conflict. No other error is repeated: the call
    /// may have taken effect.
    pub(super) async fn call(
        &self,
        function: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let done = self.conflicts.run(|_| self.call_once(function, params)).await;
        done.map_err(|error| cause(error.map_cause(StepError::into_inner)))
    }

    async fn call_once(
        &self,
        function: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StepError> {
        let call = async |connection: &mut Connection| {
            let statement = connection.prepare(&self.schema, function, params.len()).await?;
            connection.client.query(&statement, params).await
        };
        self.attempt(self.timeout, call).await
    }

    /// Executes statements that have no parameters and return nothing.
    pub(super) async fn execute(&self, text: &str) -> Result<(), StoreError> {
        let execute = async |connection: &mut Connection| {
            let done = connection.client.batch_execute(text).await;
            done.map_err(|error| StepError::Broken(error::store(&error)))
        };
        self.run(execute).await
    }

    /// Queries a single value.
    pub(super) async fn query_value<T: FromSqlOwned>(&self, text: &str) -> Result<T, StoreError> {
        let query = async |connection: &mut Connection| {
            connection.client.query_typed_one(text, &[]).await?.try_get::<_, T>(0)
        };
        self.run(query).await
    }

    /// Runs a step within the timeout of the pool.
    pub(super) async fn run<T, E: Into<StepError>>(
        &self,
        step: impl AsyncFnOnce(&mut Connection) -> Result<T, E>,
    ) -> Result<T, StoreError> {
        self.run_within(self.timeout, step).await
    }

    /// Runs a step with another timeout.
    pub(super) async fn run_within<T, E: Into<StepError>>(
        &self,
        limit: Duration,
        step: impl AsyncFnOnce(&mut Connection) -> Result<T, E>,
    ) -> Result<T, StoreError> {
        self.attempt(limit, step).await.map_err(StepError::into_inner)
    }

    async fn attempt<T, E: Into<StepError>>(
        &self,
        limit: Duration,
        step: impl AsyncFnOnce(&mut Connection) -> Result<T, E>,
    ) -> Result<T, StepError> {
        let mut lent = self.lend().await?;
        let done = self.within(limit, step(&mut lent.connection)).await?.map_err(Into::into);
        if !matches!(done, Err(StepError::Broken(_))) {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(lent.connection);
        }
        done
    }

    /// Waits for the server, but not forever: the network may have lost its answer.
    async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        timeout(limit + GRACE, work).await.map_err(|_| {
            let why = format!("{}: timed out after {limit:?}", self.address());
            StoreError::Unavailable(why.into())
        })
    }

    /// Waits for a permit, then takes an idle connection or opens one.
    async fn lend(&self) -> Result<Lent<'_>, StoreError> {
        let busy = |_| StoreError::Unavailable("all connections are busy".into());
        let permit = timeout(self.timeout + GRACE, self.permits.acquire()).await.map_err(busy)?;
        let closed = |_| StoreError::Stopped("the pool is closed".to_owned());
        let _permit = permit.map_err(closed)?;
        let connection = match self.pop_idle() {
            Some(connection) => connection,
            None => self.connecting.run(|_| self.open()).await.map_err(cause)?,
        };
        Ok(Lent { connection, _permit })
    }

    fn pop_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(|connection| !connection.client.is_closed())
    }

    /// Opens a connection with a task that drives it.
    async fn open(&self) -> Result<Connection, StoreError> {
        let (client, driver) = self.connect().await?;
        let driver = tokio::spawn(driver).abort_handle();
        let connection = Connection { client, statements: HashMap::new(), driver };
        let limits = format!(
            "set statement_timeout = {}; set idle_in_transaction_session_timeout = {}; \
             set default_transaction_isolation = 'read committed'; set client_min_messages = warning",
            self.timeout.as_millis(),
            (self.timeout + GRACE).as_millis(),
        );
        let set = self.within(self.timeout, connection.client.batch_execute(&limits)).await?;
        set.map_err(|error| error::connecting(&error, &self.address()))?;
        Ok(connection)
    }

    async fn connect(&self) -> Result<(Client, Driver), StoreError> {
        let opening = self.config.connect(self.tls.clone());
        // The timeout in `config` counts for each address, and ends with the TCP handshake.
        let opened = self.within(CONNECT * 2, opening).await?;
        opened.map_err(|error| {
            let plain = self.config.get_ssl_mode() == SslMode::Disable;
            let hint = if plain { "" } else { " (to connect without TLS, add sslmode=disable)" };
            match error::connecting(&error, &self.address()) {
                StoreError::Invalid(why) if why.contains("TLS") => StoreError::Invalid(why + hint),
                other => other,
            }
        })
    }

    /// A connection outside of the pool, which the caller drives.
    pub(super) async fn connect_unpooled(&self) -> Option<(Client, Driver)> {
        self.connecting.run(|_| self.connect()).await.ok()
    }
}

/// The future that does the input and output of a client.
pub(super) type Driver = tokio_postgres::Connection<
    tokio_postgres::Socket,
    <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>>::Stream,
>;

impl Connection {
    /// The prepared statement that calls one of our functions.
    pub(super) async fn prepare(
        &mut self,
        schema: &str,
        function: &'static str,
        params: usize,
    ) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.get(function) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&call_statement(schema, function, params)).await?;
        self.statements.insert(function, statement.clone());
        Ok(statement)
    }
}

/// The last error of a call; an attempt that the engine cut off has none.
fn cause(error: redial::Error<StoreError>) -> StoreError {
    let stopped = error.to_string();
    error.into_cause().unwrap_or_else(|| StoreError::Unavailable(stopped.into()))
}

/// The statement that calls a function.
pub(super) fn call_statement(schema: &str, function: &str, params: usize) -> String {
    let mut text = format!("select * from {schema}.{function}(");
    for number in 1..=params {
        let _ = write!(text, "{}${number}", if number == 1 { "" } else { ", " });
    }
    text + ")"
}

fn parse(url: &str, timeout: Duration) -> Result<Config, StoreError> {
    const FORM: &str = "write postgres://USER:PASSWORD@HOST:PORT/DATABASE";
    let mut config: Config = url.parse().map_err(|error: Error| {
        let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        StoreError::Invalid(format!("invalid Postgres URL: {why}; {FORM}"))
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(StoreError::Invalid(format!("invalid Postgres URL: no host; {FORM}")));
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
    Ok(config)
}
