//! What a consumer holds. Plain bookkeeping without a clock or a connection; the loops share it behind a lock.

use std::collections::{HashMap, VecDeque};

use super::entry::Entry;

/// How often an entry must have been delivered in vain to be a suspect.
pub(super) const SUSPECT_AFTER: u64 = 2;

/// What is known of an entry that this process answers for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: Vec<u8>,
    pub(super) deliveries: u64,
}

/// What a consumer holds.
#[derive(Debug, Default)]
pub(super) struct Board {
    waiting: VecDeque<Entry>,
    running: usize,
    /// By stream key: waiting, running, being put aside, or finished and not yet acknowledged.
    held: HashMap<String, Held>,
}

impl Board {
    /// How many more entries may be fetched.
    pub(super) fn free(&self, capacity: usize) -> usize {
        capacity.saturating_sub(self.waiting.len() + self.running)
    }

    /// Answers for entries from now on.
    pub(super) fn hold(&mut self, entries: &[Entry]) {
        for entry in entries {
            let held = Held { id: entry.id.clone(), deliveries: entry.deliveries };
            self.held.insert(entry.key.clone(), held);
        }
    }

    /// Lines entries up for the handler.
    pub(super) fn line_up(&mut self, entries: Vec<Entry>) {
        self.waiting.extend(entries);
    }

    /// The next entry to run, while fewer than `limit` do.
    pub(super) fn start_next(&mut self, limit: usize) -> Option<Entry> {
        if self.running >= limit {
            return None;
        }
        let entry = self.waiting.pop_front()?;
        self.running += 1;
        Some(entry)
    }

    /// An entry no longer runs; it is still held until its outcome has reached Redis.
    pub(super) fn ended(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Takes out what waits, so that it can go back.
    pub(super) fn take_waiting(&mut self) -> Vec<Entry> {
        self.waiting.drain(..).collect()
    }

    /// Outcomes have reached Redis.
    pub(super) fn release<'a>(&mut self, keys: impl IntoIterator<Item = &'a String>) {
        for key in keys {
            self.held.remove(key);
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Held> {
        self.held.get(key)
    }

    pub(super) fn holds(&self, key: &str) -> bool {
        self.held.contains_key(key)
    }

    /// Whether an entry is held that may be what killed its former workers.
    pub(super) fn holds_suspect(&self) -> bool {
        self.held.values().any(|held| held.deliveries > SUSPECT_AFTER)
    }

    pub(super) fn held_keys(&self) -> Vec<String> {
        self.held.keys().cloned().collect()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, deliveries: u64) -> Entry {
        Entry { key: key.to_owned(), id: b"id".to_vec(), deliveries }
    }

    #[test]
    fn no_more_start_than_the_limit_allows_even_when_it_sinks() {
        let mut board = Board::default();
        board.line_up((0..4).map(|n| entry(&n.to_string(), 1)).collect());
        assert!(board.start_next(2).is_some() && board.start_next(2).is_some());
        assert_eq!(board.start_next(2), None);
        board.ended();
        assert_eq!(board.start_next(1), None, "one still runs");
        board.ended();
        assert!(board.start_next(1).is_some());
    }

    #[test]
    fn free_room_counts_what_waits_and_what_runs_but_not_what_is_finished() {
        let mut board = Board::default();
        let entries = vec![entry("1", 1), entry("2", 1)];
        board.hold(&entries);
        board.line_up(entries);
        assert_eq!((board.free(3), board.free(1)), (1, 0));
        assert!(board.start_next(3).is_some());
        board.ended();
        assert_eq!(board.free(3), 2);
        assert!(board.holds("1"), "held until its outcome has reached Redis");
        board.release([&"1".to_owned()]);
        assert!(!board.holds("1"));
    }

    #[test]
    fn the_third_delivery_makes_a_suspect() {
        let mut board = Board::default();
        board.hold(&[entry("1", 2)]);
        assert!(!board.holds_suspect());
        board.hold(&[entry("2", 3)]);
        assert!(board.holds_suspect());
    }
}
