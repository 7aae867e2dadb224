//! What can be done with several jobs.

use longshore_domain::job::kind::JobState;

/// An action on jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// Those that have not ended.
    Cancel,
    /// Those that have ended, and not all of whose items succeeded.
    Retry,
}

impl Deed {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
        }
    }

    /// The states in which it is possible.
    pub(super) fn states(self) -> &'static [JobState] {
        match self {
            Self::Cancel => &[JobState::Receiving, JobState::Queued, JobState::Running, JobState::Retrying],
            Self::Retry => &[JobState::Failed, JobState::Succeeded],
        }
    }
}
