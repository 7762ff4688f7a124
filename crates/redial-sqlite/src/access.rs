use rusqlite::Connection;

/// What a request may use while it is executed.
#[derive(Debug)]
pub struct Access<'a> {
    /// The connection, in a transaction.
    pub conn: &'a Connection,
    /// The store's time in microseconds since 1970, the same for the whole request.
    pub now: i64,
    /// Queues whose waiting workers are woken when the request is committed.
    pub changed: Vec<i64>,
}

impl<'a> Access<'a> {
    pub(crate) fn new(conn: &'a Connection, now: i64) -> Self {
        Self { conn, now, changed: Vec::new() }
    }
}
