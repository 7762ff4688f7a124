//! Transactions with sqlx that run again when they conflict.
//!
//! `DATABASE_URL=postgres://… cargo run`, in this folder

use redial::{Policy, Retry, RetryFn};
use sqlx::postgres::PgPool;

/// A database, and the one `Retry` for it.
struct Bank {
    pool: PgPool,
    retry: RetryFn<sqlx::Error>,
}

impl Bank {
    async fn connect(url: &str) -> Result<Self, sqlx::Error> {
        let retry = Retry::new(Policy::standard()).retry_if(is_transient as fn(&_) -> _);
        Ok(Self { pool: PgPool::connect_lazy(url)?, retry })
    }

    async fn transfer(&self, cents: i64) -> Result<(), redial::Error<sqlx::Error>> {
        self.retry.run(|_| self.transfer_once(cents)).await
    }

    async fn transfer_once(&self, cents: i64) -> Result<(), sqlx::Error> {
        let mut transaction = self.pool.begin_with("BEGIN ISOLATION LEVEL SERIALIZABLE").await?;
        for (id, change) in [(1, -cents), (2, cents)] {
            let update = sqlx::query("UPDATE account SET cents = cents + $1 WHERE id = $2");
            update.bind(change).bind(id).execute(&mut *transaction).await?;
        }
        transaction.commit().await
    }
}

/// Whether nothing has happened and another attempt can succeed: a conflict, a deadlock, or no connection yet. A connection that
/// breaks later may have committed.
fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => matches!(error.code().as_deref(), Some("40001" | "40P01")),
        sqlx::Error::PoolTimedOut => true,
        _ => false,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bank = Bank::connect(&std::env::var("DATABASE_URL")?).await?;
    bank.transfer(500).await?;
    Ok(())
}
