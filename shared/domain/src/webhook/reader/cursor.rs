//! Where a reader is in the events, as it is told and tells.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};

use longshore_kernel::ids::EventId;

/// Characters of a cursor: a snapshot names each transaction that was running.
pub(super) const LONGEST: usize = 16_384;

/// A moment of the events of an organisation: all that its snapshot shows has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tick {
    /// Its place among those of the organisation.
    pub(super) n: i64,
    pub(super) at: DateTime<Utc>,
    /// As Postgres writes it.
    pub(super) snapshot: String,
}

/// What numbers of transactions are of: an epoch of the service, in a cluster of Postgres.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) epoch: i32,
    pub(super) cluster: i64,
}

/// A place in the events: all before `done` is read, and of what came between that and `within` the events up to this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) line: Line,
    pub(super) done: Tick,
    pub(super) within: Option<(Tick, EventId)>,
}

impl Cursor {
    /// Right after a moment.
    pub(super) fn at(line: Line, done: Tick) -> Self {
        Self { line, done, within: None }
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.n, self.at.timestamp_micros(), self.snapshot)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line: Line { epoch, cluster }, done, within } = self;
        let plain = match within {
            None => format!("{epoch}.{cluster}.{done}"),
            Some((until, last)) => format!("{epoch}.{cluster}.{done}.{until}.{last}"),
        };
        f.write_str(&URL_SAFE_NO_PAD.encode(plain))
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.len() > LONGEST {
            return Err(());
        }
        let plain = String::from_utf8(URL_SAFE_NO_PAD.decode(text).map_err(|_| ())?).map_err(|_| ())?;
        let mut parts = plain.split('.');
        let epoch = parts.next().and_then(|part| part.parse().ok()).ok_or(())?;
        let cluster = parts.next().and_then(|part| part.parse().ok()).ok_or(())?;
        let line = Line { epoch, cluster };
        let done = tick(&mut parts).ok_or(())?;
        let mut rest = parts.peekable();
        let within = if rest.peek().is_some() {
            let until = tick(&mut rest).ok_or(())?;
            let last = rest.next().and_then(EventId::parse).ok_or(())?;
            Some((until, last))
        } else {
            None
        };
        if rest.next().is_some() { Err(()) } else { Ok(Self { line, done, within }) }
    }
}

fn tick<'t>(parts: &mut impl Iterator<Item = &'t str>) -> Option<Tick> {
    let n = parts.next()?.parse().ok()?;
    let at = parts.next()?.parse().ok().and_then(DateTime::from_timestamp_micros)?;
    let snapshot = parts.next().filter(|text| is_snapshot(text))?.to_owned();
    Some(Tick { n, at, snapshot })
}

/// Whether Postgres reads it: `xmin:xmax:xip,…`, in order and within the bounds.
fn is_snapshot(text: &str) -> bool {
    let mut parts = text.split(':');
    let mut number = || parts.next()?.parse::<i64>().ok().filter(|id| *id > 0);
    let Some((lowest, highest)) = number().zip(number()) else { return false };
    let Some(running) = parts.next() else { return false };
    let mut before = lowest - 1;
    let are_in_order = running.split(',').filter(|id| !running.is_empty() || !id.is_empty()).all(|id| {
        let id = id.parse::<i64>().ok().filter(|id| *id > before && *id < highest);
        before = id.unwrap_or(before);
        id.is_some()
    });
    lowest <= highest && are_in_order && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line = Line { epoch: 3, cluster: -7 };

    fn tick(n: i64, snapshot: &str) -> Tick {
        let at = DateTime::from_timestamp_micros(1_767_225_600_123_456).unwrap();
        Tick { n, at, snapshot: snapshot.to_owned() }
    }

    #[test]
    fn a_cursor_comes_back_as_it_was_written() {
        let done = Cursor::at(LINE, tick(7, "100:100:"));
        let within = Some((tick(8, "100:120:100,105,119"), EventId::new()));
        for cursor in [done.clone(), Cursor { within, ..done }] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
    }

    #[test]
    fn what_postgres_would_not_read_is_no_cursor() {
        for snapshot in [
            "",
            "1",
            "1:2",
            "2:1:",
            "0:1:",
            "1:5:5",
            "1:5:0",
            "1:5:3,2",
            "1:5:2,",
            "1:5:,2",
            "1:5:2:",
            "1:5:x",
            "-1:5:",
            "1:9223372036854775808:",
        ] {
            let cursor = Cursor::at(LINE, tick(1, snapshot));
            assert_eq!(cursor.to_string().parse::<Cursor>(), Err(()), "{snapshot}");
        }
        for text in ["", "x", "AAAA", &"A".repeat(LONGEST + 1)] {
            assert_eq!(text.parse::<Cursor>(), Err(()), "{text}");
        }
    }
}
