//! The items of a chunk as they are stored: length-prefixed, compressed.
//!
//! An item is bytes: an id, or a row as it came. Length-prefixed rather than a line each, since a row of a JSON array
//! may contain line breaks, and a row that is no JSON at all is kept for its error.

use bytes::Bytes;
use uuid::Uuid;

/// Items of ids in one chunk.
pub const IDS_PER_CHUNK: u16 = 1_000;
/// Rows in one chunk.
pub const ROWS_PER_CHUNK: usize = 1_000;
/// Bytes of rows in one chunk, before compression.
pub const BYTES_PER_CHUNK: usize = 1024 * 1024;
/// The longest row.
pub const LONGEST_ROW: usize = 1024 * 1024;
/// Bytes of memory that the values of a row may need when it is read.
pub const HEAVIEST_ROW: usize = 8 * 1024 * 1024;

/// A chunk decompresses to no more than its last row lets it grow to.
const DECOMPRESSED_LIMIT: usize = BYTES_PER_CHUNK + LONGEST_ROW + ROWS_PER_CHUNK * 4;
/// Speed over size: these bytes live for seconds.
const LEVEL: i32 = 1;

/// The stored bytes are not a payload.
#[derive(Debug, thiserror::Error)]
#[error("the payload of a chunk cannot be read: {0}")]
pub struct Unreadable(String);

/// Gathers rows until they fill a chunk.
#[derive(Debug, Default)]
pub struct Rows {
    raw: Vec<u8>,
    count: usize,
}

impl Rows {
    /// Adds a row; it is at most [`LONGEST_ROW`] bytes.
    pub fn push(&mut self, row: &[u8]) {
        let length = u32::try_from(row.len()).unwrap_or(u32::MAX);
        self.raw.extend_from_slice(&length.to_le_bytes());
        self.raw.extend_from_slice(row);
        self.count += 1;
    }

    /// Whether the next row belongs to the next chunk.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count >= ROWS_PER_CHUNK || self.raw.len() >= BYTES_PER_CHUNK
    }

    /// Bytes of the rows so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.raw.len()
    }

    /// Rows so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Compresses the collected items, and starts with none.
    pub fn take(&mut self) -> Vec<u8> {
        self.count = 0;
        let packed = compress(&self.raw);
        self.raw.clear();
        packed
    }
}

/// Packs ids; Postgres does so with many by its function `packed_ids`.
#[must_use]
pub fn pack_ids<I: Into<Uuid> + Copy>(ids: &[I]) -> Vec<u8> {
    let raw: Vec<u8> = ids.iter().flat_map(|id| (*id).into().into_bytes()).collect();
    compress(&raw)
}

/// Unpacks ids: which kind they are of is known by the job.
pub fn unpack_ids<I: From<Uuid>>(payload: &[u8]) -> Result<Vec<I>, Unreadable> {
    let raw = decompress(payload)?;
    let (ids, rest) = raw.as_chunks::<16>();
    if rest.is_empty() {
        Ok(ids.iter().map(|bytes| Uuid::from_bytes(*bytes).into()).collect())
    } else {
        Err(Unreadable("its length is not a multiple of the length of an id".to_owned()))
    }
}

/// Unpacks rows; they share one allocation.
pub fn unpack_rows(payload: &[u8]) -> Result<Vec<Bytes>, Unreadable> {
    let mut raw = Bytes::from(decompress(payload)?);
    let mut rows = Vec::new();
    while !raw.is_empty() {
        let cut = || Unreadable("it ends within a row".to_owned());
        let (length, _) = raw.split_first_chunk::<4>().ok_or_else(cut)?;
        let length = u32::from_le_bytes(*length) as usize;
        if raw.len() < 4 + length {
            return Err(cut());
        }
        rows.push(raw.slice(4..4 + length));
        raw = raw.slice(4 + length..);
    }
    Ok(rows)
}

/// Those of packed items, rows or ids, that have these positions.
pub fn pick(payload: &[u8], are_rows: bool, positions: &[usize]) -> Result<Vec<u8>, Unreadable> {
    if !are_rows {
        let ids = unpack_ids::<Uuid>(payload)?;
        return Ok(pack_ids(&positions.iter().filter_map(|at| ids.get(*at).copied()).collect::<Vec<_>>()));
    }
    let rows = unpack_rows(payload)?;
    let mut picked = Rows::default();
    for row in positions.iter().filter_map(|at| rows.get(*at)) {
        picked.push(row);
    }
    Ok(picked.take())
}

/// Cuts packed items, rows or ids, in two: so many, and the others.
pub fn cut(payload: &[u8], are_rows: bool, at: usize) -> Result<[Vec<u8>; 2], Unreadable> {
    let too_few = || Unreadable("it has fewer items than its chunk".to_owned());
    if !are_rows {
        let (first, second) = unpack_ids::<Uuid>(payload)?
            .split_at_checked(at)
            .map(|(a, b)| (pack_ids(a), pack_ids(b)))
            .ok_or_else(too_few)?;
        return Ok([first, second]);
    }
    let rows = unpack_rows(payload)?;
    let (first, second) = rows.split_at_checked(at).ok_or_else(too_few)?;
    Ok([first, second].map(|part| {
        let mut packed = Rows::default();
        for row in part {
            packed.push(row);
        }
        packed.take()
    }))
}

fn compress(raw: &[u8]) -> Vec<u8> {
    // compressing into memory cannot fail; a payload that is empty all the same is found when it is unpacked
    zstd::bulk::compress(raw, LEVEL).unwrap_or_default()
}

fn decompress(payload: &[u8]) -> Result<Vec<u8>, Unreadable> {
    zstd::bulk::decompress(payload, DECOMPRESSED_LIMIT).map_err(|error| Unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_come_back_as_they_went_in(rows in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..50)) {
            let mut packed = Rows::default();
            for row in &rows {
                packed.push(row);
            }
            prop_assert_eq!(packed.len(), rows.len());
            let unpacked = unpack_rows(&packed.take()).unwrap();
            prop_assert_eq!(unpacked.iter().map(|r| r.to_vec()).collect::<Vec<_>>(), rows);
            prop_assert!(packed.is_empty());
        }

        #[test]
        fn damaged_payloads_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack_rows(&bytes);
            let _ = unpack_ids::<Uuid>(&bytes);
        }
    }

    #[test]
    fn ids_come_back_as_they_went_in() {
        // a job that is all or nothing has them in one chunk
        let ids: Vec<Uuid> =
            (0..crate::job::acceptance::LARGEST_BULK).map(|_| longshore_kernel::ids::random_id()).collect();
        assert_eq!(unpack_ids::<Uuid>(&pack_ids(&ids)).unwrap(), ids);
    }

    #[test]
    fn what_is_cut_in_two_has_the_same_items() {
        let ids: Vec<Uuid> = (0..5).map(|_| longshore_kernel::ids::random_id()).collect();
        let [first, second] = cut(&pack_ids(&ids), false, 2).unwrap();
        assert_eq!(unpack_ids::<Uuid>(&first).unwrap(), ids[..2]);
        assert_eq!(unpack_ids::<Uuid>(&second).unwrap(), ids[2..]);
        let mut rows = Rows::default();
        for row in ["a", "bc", ""] {
            rows.push(row.as_bytes());
        }
        let [first, second] = cut(&rows.take(), true, 1).unwrap();
        assert_eq!(unpack_rows(&first).unwrap(), ["a"]);
        assert_eq!(unpack_rows(&second).unwrap(), ["bc", ""]);
        assert!(cut(&pack_ids(&ids), false, 6).is_err());
    }

    #[test]
    fn a_full_chunk_and_its_longest_last_row_unpack() {
        let mut rows = Rows::default();
        rows.push(&vec![b'x'; BYTES_PER_CHUNK - 5]);
        assert!(!rows.is_full());
        rows.push(&vec![b'y'; LONGEST_ROW]);
        assert!(rows.is_full());
        assert_eq!(unpack_rows(&rows.take()).unwrap().len(), 2);
    }
}
