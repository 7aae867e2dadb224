//! Closed lists of words, open to words of later versions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A closed list of words, open to words of later versions.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$said:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$said])* $variant,)+
            /// A word that this version does not know.
            Other(String),
        }

        impl $name {
            /// All words that this version knows.
            pub const ALL: &[&str] = &[$($word),+];

            /// The word of the API.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                match word.as_str() {
                    $($word => Self::$variant,)+
                    _ => Self::Other(word),
                }
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> Self {
                word.as_str().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// The state of a job.
    JobState {
        /// The rows of the request are arriving.
        Receiving = "receiving",
        /// Waiting for its turn.
        Queued = "queued",
        /// A worker executes it.
        Running = "running",
        /// Failed temporarily; waiting for the next attempt.
        Retrying = "retrying",
        /// Every chunk was executed; items may have been refused.
        Succeeded = "succeeded",
        /// A chunk failed permanently.
        Failed = "failed",
        /// Cancelled; completed chunks keep their effect.
        Cancelled = "cancelled",
    }
}

words! {
    /// The outcome of a succeeded job.
    Outcome {
        /// No item was refused.
        Complete = "complete",
        /// Some items were refused.
        Partial = "partial",
        /// The guard of the sync has withheld what would have destroyed too much.
        Withheld = "withheld",
        /// Every item was refused.
        Nothing = "nothing",
    }
}

words! {
    /// The health of a webhook.
    Health {
        /// Its deliveries succeed.
        Healthy = "healthy",
        /// Its last delivery failed.
        Failing = "failing",
        /// The service has disabled it.
        Disabled = "disabled",
    }
}

words! {
    /// The state of a delivery.
    DeliveryState {
        /// It waits for its first or next attempt.
        Pending = "pending",
        /// The destination accepted it.
        Delivered = "delivered",
        /// Its last attempt failed, too.
        Exhausted = "exhausted",
        /// It is not sent any more.
        Cancelled = "cancelled",
    }
}

impl JobState {
    /// Whether a job in this state has ended.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}
