//! The store's time as it is saved in the file: read in every transaction, written once a second, and repaired when the clock of
//! a machine was far off.

use rusqlite::{Connection, Row, params};

use crate::fault::{SqliteFault, damaged};
use crate::store_time::{Boot, Clock, MachineClocks, Resumed, SavedTime};

/// How far the saved time may lag behind, in microseconds.
const MAX_LAG: i64 = 1_000_000;

pub(crate) fn read(conn: &Connection) -> Result<SavedTime, SqliteFault> {
    let mut select =
        conn.prepare_cached("SELECT time, repairs, wall, boot, uptime FROM redial_store")?;
    let row = |row: &Row<'_>| {
        let (id, uptime): (Option<String>, Option<i64>) = (row.get(3)?, row.get(4)?);
        let boot = id.zip(uptime).map(|(id, uptime)| Boot { id, uptime });
        let clocks = MachineClocks { wall: row.get(2)?, boot };
        Ok(SavedTime { time: row.get(0)?, repairs: row.get(1)?, clocks })
    };
    select.query_row([], row).map_err(no_time)
}

/// Saves the store's time, with the machine's clocks at the same moment.
pub(crate) fn write(
    conn: &Connection,
    time: i64,
    clocks: MachineClocks,
) -> Result<(), SqliteFault> {
    let MachineClocks { wall, boot } = clocks;
    let (id, uptime) = boot.map(|boot| (boot.id, boot.uptime)).unzip();
    let sql = "UPDATE redial_store SET time = ?1, wall = ?2, boot = ?3, uptime = ?4";
    conn.prepare_cached(sql)?.execute(params![time, wall, id, uptime])?;
    Ok(())
}

/// The store's time, in a transaction that also saves it if the saved time lags too far behind.
pub(crate) fn now(conn: &Connection, clock: &Clock) -> Result<i64, SqliteFault> {
    let mut select = conn.prepare_cached("SELECT time, repairs FROM redial_store")?;
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (saved, repairs): (i64, i64) = select.query_row([], row).map_err(no_time)?;
    if clock.is_outdated(repairs) {
        clock.set(read(conn)?.resume(MachineClocks::read()).time, repairs);
    }
    let now = clock.at_least(saved);
    if now.saturating_sub(saved) < MAX_LAG {
        return Ok(now);
    }
    let clocks = MachineClocks::read();
    // Our own clock stops while the machine is suspended, and the uptime does not.
    let now = read(conn)?.ahead_of(now, &clocks).map_or(now, |time| clock.at_least(time));
    write(conn, now, clocks)?;
    Ok(now)
}

/// A clock for a file that has the tables.
pub(crate) fn clock(conn: &Connection) -> Result<Clock, SqliteFault> {
    let (saved, resumed) = resume(conn)?;
    if !resumed.needs_save {
        return Ok(Clock::at(resumed.time, saved.repairs));
    }
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let clock = resume(conn).and_then(|(saved, resumed)| {
        write(conn, resumed.time, resumed.clocks)?;
        Ok(Clock::at(resumed.time, saved.repairs))
    });
    conn.execute_batch(if clock.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    clock
}

/// The saved time and the store's time now; an error if the clocks contradict each other.
fn resume(conn: &Connection) -> Result<(SavedTime, Resumed), SqliteFault> {
    let saved = read(conn)?;
    let resumed = saved.resume(MachineClocks::read());
    match resumed.check() {
        Ok(()) => Ok((saved, resumed)),
        Err(implausible) => {
            let why = format!("cannot be used now: {implausible}");
            Err(SqliteFault::Invalid(why))
        }
    }
}

/// Sets the store's time to the wall clock and shifts every other time by as much, so that the remaining waits and leases stay
/// the same. Returns the shift in microseconds.
pub(crate) fn repair(conn: &Connection) -> Result<i64, SqliteFault> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let Resumed { time, clocks, .. } = read(conn)?.resume(MachineClocks::read());
    let by = clocks.wall.saturating_sub(time);
    for sql in [
        "UPDATE redial_job SET due = due + ?1, created = created + ?1, begun = begun + ?1",
        "UPDATE redial_ready SET due = due + ?1",
        "UPDATE redial_running SET due = due + ?1, since = since + ?1, until = until + ?1, begun = begun + ?1",
        "UPDATE redial_queue SET full_at = full_at + ?1 * 1000 WHERE full_at > 0",
        "UPDATE redial_idempotency SET lease = lease + ?1, ends = ends + ?1",
    ] {
        conn.execute(sql, [by])?;
    }
    conn.execute("UPDATE redial_store SET repairs = repairs + 1", [])?;
    write(conn, clocks.wall, clocks)?;
    conn.execute_batch("COMMIT")?;
    Ok(by)
}

fn no_time(error: rusqlite::Error) -> SqliteFault {
    match error {
        rusqlite::Error::QueryReturnedNoRows => damaged("the row with the time is missing"),
        error => error.into(),
    }
}
