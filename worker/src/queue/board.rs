//! What a consumer holds. Pure bookkeeping without a clock or a connection; the loops share it behind a lock.

use std::collections::{HashMap, VecDeque};

use super::entry::Entry;

/// An entry is a suspect after this many deliveries without a result.
pub(super) const SUSPECT_AFTER: u64 = 2;

/// An entry that this process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: Vec<u8>,
    pub(super) deliveries: u64,
}

/// The entries that a consumer holds.
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

    /// Holds entries from now on.
    pub(super) fn hold(&mut self, entries: &[Entry]) {
        for entry in entries {
            let held = Held { id: entry.id.clone(), deliveries: entry.deliveries };
            self.held.insert(entry.key.clone(), held);
        }
    }

    /// Queues entries for the handler.
    pub(super) fn line_up(&mut self, entries: Vec<Entry>) {
        self.waiting.extend(entries);
    }

    /// The next entry to run, if fewer than `limit` run.
    pub(super) fn start_next(&mut self, limit: usize) -> Option<Entry> {
        if self.running >= limit {
            return None;
        }
        let entry = self.waiting.pop_front()?;
        self.running += 1;
        Some(entry)
    }

    /// Notes that an entry has ended; it is held until its outcome has reached Redis.
    pub(super) fn ended(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Removes and returns waiting entries, so that they can be given back.
    pub(super) fn take_waiting(&mut self) -> Vec<Entry> {
        self.waiting.drain(..).collect()
    }

    /// Releases entries whose outcomes have reached Redis.
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

    /// Whether it holds an entry that may have killed its former workers.
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
    fn no_more_tasks_start_than_the_limit_allows_even_when_it_is_lowered() {
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
    fn waiting_and_running_entries_take_room_and_finished_ones_do_not() {
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
    fn an_entry_is_a_suspect_from_its_third_delivery_on() {
        let mut board = Board::default();
        board.hold(&[entry("1", 2)]);
        assert!(!board.holds_suspect());
        board.hold(&[entry("2", 3)]);
        assert!(board.holds_suspect());
    }
}
