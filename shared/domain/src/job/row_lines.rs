//! Which line of its file each row of a chunk was, as an editor counts them: from 1, the header and blank lines too.

use std::ops::Range;

/// The lines of the rows of a chunk: of all of them, or of none where they came from no file.
///
/// Most rows are on consecutive lines, so only runs of these are kept: the position in the chunk of the first
/// row of each, and its line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowLines(Vec<i64>);

impl RowLines {
    /// As they are stored; null where there are none.
    #[must_use]
    pub fn stored(&self) -> Option<&[i64]> {
        (!self.0.is_empty()).then_some(self.0.as_slice())
    }

    /// Adds the row at a position, the one after the last.
    pub fn push(&mut self, position: usize, line: i64) {
        if self.of(position) != Some(line) {
            self.0.extend([i64::try_from(position).unwrap_or(i64::MAX), line]);
        }
    }

    /// Those of a part of the rows.
    #[must_use]
    pub fn part(&self, positions: Range<usize>) -> Self {
        let mut part = Self::default();
        for (place, line) in positions.enumerate().filter_map(|(place, of)| Some((place, self.of(of)?))) {
            part.push(place, line);
        }
        part
    }

    /// The line of the row at a position.
    #[must_use]
    pub fn of(&self, position: usize) -> Option<i64> {
        let position = i64::try_from(position).ok()?;
        let (runs, _) = self.0.as_chunks::<2>();
        let [first, line] =
            runs.get(runs.partition_point(|[first, _]| *first <= position).checked_sub(1)?)?;
        Some(line.saturating_add(position - first))
    }
}

impl From<Option<Vec<i64>>> for RowLines {
    fn from(stored: Option<Vec<i64>>) -> Self {
        Self(stored.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_come_back_as_they_went_in(skipped in prop::collection::vec(prop_oneof![4 => Just(1), 1 => 1_i64..9], 0..60)) {
            let lines: Vec<i64> = skipped.iter().scan(1, |line, skipped| { *line += skipped; Some(*line) }).collect();
            let mut kept = RowLines::default();
            for (position, line) in lines.iter().enumerate() {
                kept.push(position, *line);
            }
            let stored = RowLines::from(kept.stored().map(<[i64]>::to_vec));
            let read: Vec<i64> = (0..lines.len()).filter_map(|position| stored.of(position)).collect();
            let middle = lines.len() / 2;
            let (first, second) = (stored.part(0..middle), stored.part(middle..lines.len()));
            let parts: Vec<i64> = (0..middle).filter_map(|position| first.of(position))
                .chain((0..lines.len() - middle).filter_map(|position| second.of(position))).collect();
            prop_assert_eq!(&parts, &lines);
            prop_assert_eq!(read, lines);
        }
    }

    #[test]
    fn lines_that_follow_each_other_are_one_run() {
        let mut kept = RowLines::default();
        assert_eq!((kept.stored(), kept.of(0)), (None, None));
        for position in 0..1_000 {
            kept.push(position, i64::try_from(position).unwrap() + if position < 500 { 2 } else { 5 });
        }
        assert_eq!(kept.stored(), Some(&[0, 2, 500, 505][..]));
    }
}
