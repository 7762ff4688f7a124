//! The store's time as it stands in the file: read in every transaction, written once a second, and repaired when the
//! clock of a machine was wrong by far.

use std::path::Path;

use rusqlite::{Connection, Row, params};

use super::clock::{Boot, Clock, Machine, Mark, Reckoned};
use super::fault::{Fault, damaged};
use super::open;
use crate::durable::StoreError;

/// How far the mark in the file may be behind, in microseconds.
const BEHIND: i64 = 1_000_000;

/// The whole mark.
pub(super) fn read(conn: &Connection) -> Result<Mark, Fault> {
    let mut select =
        conn.prepare_cached("SELECT time, repairs, wall, boot, uptime FROM redial_store")?;
    let row = |row: &Row<'_>| {
        let (id, uptime): (Option<String>, Option<i64>) = (row.get(3)?, row.get(4)?);
        let boot = id.zip(uptime).map(|(id, uptime)| Boot { id, uptime });
        let machine = Machine { wall: row.get(2)?, boot };
        Ok(Mark { time: row.get(0)?, repairs: row.get(1)?, machine })
    };
    select.query_row([], row).map_err(no_time)
}

/// Writes the store's time at a moment when the machine's clocks read this.
pub(super) fn write(conn: &Connection, time: i64, machine: Machine) -> Result<(), Fault> {
    let Machine { wall, boot } = machine;
    let (id, uptime) = boot.map(|boot| (boot.id, boot.uptime)).unzip();
    let sql = "UPDATE redial_store SET time = ?1, wall = ?2, boot = ?3, uptime = ?4";
    conn.prepare_cached(sql)?.execute(params![time, wall, id, uptime])?;
    Ok(())
}

/// The store's time in a transaction, in which the mark is brought up to date if it is too far behind.
pub(super) fn now(conn: &Connection, clock: &Clock) -> Result<i64, Fault> {
    let mut select = conn.prepare_cached("SELECT time, repairs FROM redial_store")?;
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (mark, repairs): (i64, i64) = select.query_row([], row).map_err(no_time)?;
    if clock.is_outdated(repairs) {
        clock.set(read(conn)?.reckon(Machine::read()).time, repairs);
    }
    let now = clock.after(mark);
    if now.saturating_sub(mark) < BEHIND {
        return Ok(now);
    }
    let machine = Machine::read();
    // Our own clock stands still while the machine sleeps, and its uptime does not.
    let now = read(conn)?.ahead_of(now, &machine).map_or(now, |time| clock.after(time));
    write(conn, now, machine)?;
    Ok(now)
}

/// A clock for a file that has the tables.
pub(super) fn clock(conn: &Connection) -> Result<Clock, Fault> {
    let (mark, reckoned) = reckon(conn)?;
    if !reckoned.needs_mark {
        return Ok(Clock::at(reckoned.time, mark.repairs));
    }
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let clock = reckon(conn).and_then(|(mark, reckoned)| {
        write(conn, reckoned.time, reckoned.machine)?;
        Ok(Clock::at(reckoned.time, mark.repairs))
    });
    conn.execute_batch(if clock.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    clock
}

/// The mark and the store's time now; an error if the clocks contradict each other.
fn reckon(conn: &Connection) -> Result<(Mark, Reckoned), Fault> {
    let mark = read(conn)?;
    let reckoned = mark.reckon(Machine::read());
    match reckoned.check() {
        Ok(()) => Ok((mark, reckoned)),
        Err(implausible) => {
            let why = format!("cannot be used now: {implausible}");
            Err(Fault::Request(StoreError::Invalid(why)))
        }
    }
}

/// Sets the store's time to the wall clock and moves every other time along, so that each wait and lease has as long to
/// go as before. Returns by how many microseconds.
pub(super) fn repair(path: &Path) -> Result<i64, StoreError> {
    let conn = open::connect_ours(path)?;
    let repair = || -> Result<i64, Fault> {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        let Reckoned { time, machine, .. } = read(&conn)?.reckon(Machine::read());
        let by = machine.wall.saturating_sub(time);
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
        write(&conn, machine.wall, machine)?;
        conn.execute_batch("COMMIT")?;
        Ok(by)
    };
    repair().map_err(|fault| open::named(path, fault))
}

fn no_time(error: rusqlite::Error) -> Fault {
    match error {
        rusqlite::Error::QueryReturnedNoRows => damaged("the row with its time is missing"),
        error => error.into(),
    }
}
