//! The result of using a claim (on a chunk, on an announced object): it was still held, or it was lost.

/// What became of a claim when its holder acted under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Hold {
    /// It held: what was done under it counts.
    Kept,
    /// It was lost before. Nothing was done, and the holder drops its transaction.
    Lost,
}

impl Hold {
    /// Of a conditional write: it held if the write hit a row.
    pub const fn of_rows(rows: u64) -> Self {
        if rows > 0 { Self::Kept } else { Self::Lost }
    }

    /// Whether it was lost.
    #[must_use]
    pub const fn is_lost(self) -> bool {
        matches!(self, Self::Lost)
    }
}
