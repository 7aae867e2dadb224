//! The queues there are, and the names of their keys in Redis.

use std::fmt;

/// The queues of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Queue {
    /// Pieces of bulk and sync jobs; an entry is `<job uuid>:<number>`.
    Chunk,
    /// Chunks that call a partner; an entry is named as those of `Chunk` are.
    Partner,
    /// Webhooks that have something due; an entry is the uuid of a webhook.
    Lane,
    /// Systems of warehouses that have something due; an entry is the uuid of a wms.
    Handover,
    /// Periodic tasks; an entry is the name of one.
    Upkeep,
}

impl Queue {
    /// Every queue, in the order in which an operator sees them.
    pub const ALL: [Self; 5] = [Self::Chunk, Self::Partner, Self::Lane, Self::Handover, Self::Upkeep];

    /// The name in keys, in `/api/queue/{name}` and in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chunk => "chunk",
            Self::Partner => "partner",
            Self::Lane => "lane",
            Self::Handover => "handover",
            Self::Upkeep => "upkeep",
        }
    }

    /// The queue of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|queue| queue.name() == name)
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Key names of one queue, all under one hash tag: `{<prefix>q:<name>}…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueKeys {
    stream: String,
    dead: String,
    marker: String,
    probe: String,
    holder: String,
    of_holder: String,
    worker: String,
    pulse: String,
}

impl QueueKeys {
    pub(super) fn new(prefix: &str, queue: Queue) -> Self {
        let tag = format!("{{{prefix}q:{queue}}}");
        Self {
            stream: format!("{tag}:s"),
            dead: format!("{tag}:dead"),
            marker: format!("{tag}:on:"),
            probe: format!("{tag}:probe"),
            holder: format!("{tag}:holder:"),
            of_holder: format!("{tag}:to:"),
            worker: format!("{tag}:worker:"),
            pulse: format!("{tag}:pulse"),
        }
    }

    /// The stream of what waits and what runs.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// The stream of what was put aside because it could not be worked on.
    #[must_use]
    pub fn dead(&self) -> &str {
        &self.dead
    }

    /// The key that is written to see whether it can be.
    #[must_use]
    pub fn probe(&self) -> &str {
        &self.probe
    }

    /// The marker that says that an id is on the queue.
    #[must_use]
    pub fn marker(&self, id: &str) -> String {
        format!("{}{id}", self.marker)
    }

    /// The registration of the process that holds a lane: the token of its lease, a space, and its name.
    #[must_use]
    pub fn holder(&self, id: &str) -> String {
        format!("{}{id}", self.holder)
    }

    /// The stream of what is for one holder; without a name, what the names of such streams start with.
    #[must_use]
    pub fn of_holder(&self, name: &str) -> String {
        format!("{}{name}", self.of_holder)
    }

    /// What a worker said of itself last.
    #[must_use]
    pub fn worker(&self, name: &str) -> String {
        format!("{}{name}", self.worker)
    }

    /// The highest pulse of the database that was committed ([`pulse`](crate::pulse)).
    #[must_use]
    pub fn pulse(&self) -> &str {
        &self.pulse
    }

    /// The command that takes the markers of ids away; for a connection of the caller's choice. `ids` is not empty.
    #[must_use]
    pub fn clear_markers<I: AsRef<str>>(&self, ids: impl IntoIterator<Item = I>) -> redis::Cmd {
        let mut command = redis::cmd("UNLINK");
        for id in ids {
            command.arg(self.marker(id.as_ref()));
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_queue_share_one_hash_tag() {
        let keys = QueueKeys::new("shop:", Queue::Lane);
        assert_eq!(keys.stream(), "{shop:q:lane}:s");
        assert_eq!(keys.dead(), "{shop:q:lane}:dead");
        assert_eq!(keys.marker("a{b}c"), "{shop:q:lane}:on:a{b}c");
        assert_eq!(keys.holder("a"), "{shop:q:lane}:holder:a");
        assert_eq!(keys.of_holder("box-7"), "{shop:q:lane}:to:box-7");
    }

    #[test]
    fn a_queue_is_found_by_its_name_only() {
        for queue in Queue::ALL {
            assert_eq!(Queue::from_name(queue.name()), Some(queue));
        }
        assert_eq!(Queue::from_name("Chunk"), None);
    }
}
