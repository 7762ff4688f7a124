//! How many jobs match a filter, and what they have in common.

use redial_sqlite::SqliteFault;
use rusqlite::{Connection, Row, params_from_iter};

use super::read::Selection;
use crate::durable::text::time;
use crate::durable::{Filter, Group, JobId};

/// The outcome of the last attempt, or null.
pub(super) const LAST_OUTCOME: &str =
    "iif(json_valid(job.history), json_extract(job.history, '$[#-1][3]'), NULL)";

pub(super) fn count(conn: &Connection, filter: &Filter, now: i64) -> Result<u64, SqliteFault> {
    let selection = Selection::new(conn, filter, now)?;
    let sql = format!("SELECT count(*) FROM ({})", selection.select("1"));
    let mut select = conn.prepare(&sql)?;
    Ok(select.query_row(params_from_iter(selection.values()), |row| row.get(0))?)
}

pub(super) fn groups(
    conn: &Connection,
    filter: &Filter,
    most: usize,
    now: i64,
) -> Result<Vec<Group>, SqliteFault> {
    let selection = Selection::new(conn, filter, now)?;
    let columns = format!("job.reason, {LAST_OUTCOME} AS outcome, job.due AS due, job.id AS id");
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let sql = format!(
        "SELECT reason, outcome, count(*), min(due), max(due), min(id) FROM ({}) \
         GROUP BY reason, outcome ORDER BY count(*) DESC, min(id) LIMIT {most}",
        selection.select(&columns)
    );
    let mut select = conn.prepare(&sql)?;
    let found = select.query_map(params_from_iter(selection.values()), read)?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Group> {
    Ok(Group {
        reason: row.get(0)?,
        outcome: row.get(1)?,
        jobs: row.get(2)?,
        oldest: time(row.get(3)?),
        newest: time(row.get(4)?),
        first: JobId(row.get(5)?),
    })
}
