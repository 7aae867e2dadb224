//! Badges, and the tone of each state.

use longshore_domain::job::chunk::ChunkState;
use longshore_domain::job::kind::JobState;
use longshore_domain::list::fields::expedition::{ExpeditionStatus, HandoverState};
use longshore_domain::list::fields::job::{JobOutcome, outcome};
use longshore_domain::webhook::delivery::DeliveryState;
use longshore_domain::webhook::health::Health;
use longshore_kernel::word::plain;
use longshore_operate::wms::Course;
use maud::{Markup, html};

/// A severity; its word carries the meaning, its colour only emphasises it. What a person must do something about is [`Tone::Bad`]; what
/// goes on by itself is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Busy,
    Warn,
    Bad,
    Quiet,
}

impl Tone {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Busy => "busy",
            Self::Warn => "warn",
            Self::Bad => "bad",
            Self::Quiet => "quiet",
        }
    }
}

/// A word in the colour of its tone.
pub(crate) fn badge(tone: Tone, word: &str) -> Markup {
    html! { span.badge.(tone.class()) { (word) } }
}

/// A state that has a tone.
pub(crate) trait Toned: Copy {
    /// Its word and its tone.
    fn toned(self) -> (&'static str, Tone);
}

/// The states of each tone.
macro_rules! tones {
    ($($of:ty { $($tone:ident: $($state:ident)|+,)+ })+) => {
        $(impl Toned for $of {
            fn toned(self) -> (&'static str, Tone) {
                let tone = match self {
                    $($(Self::$state)|+ => Tone::$tone,)+
                };
                (self.as_str(), tone)
            }
        })+
    };
}

tones! {
    JobState {
        Good: Succeeded,
        Busy: Running | Receiving,
        Warn: Retrying,
        Bad: Failed,
        Quiet: Queued | Cancelled,
    }
    ChunkState {
        Good: Succeeded,
        Busy: Running,
        Bad: Failed,
        Quiet: Queued | Cancelled,
    }
    DeliveryState {
        Good: Delivered,
        Bad: Exhausted,
        Quiet: Pending | Cancelled,
    }
    Health {
        Good: Healthy,
        Warn: Failing,
        Bad: Disabled,
        Quiet: Inactive,
    }
    ExpeditionStatus {
        Good: ProbablyDelivered | Delivered,
        Busy: AwaitingProcessing | TakeOut | Completion | WaitingForTheCarrier | CarrierPickedUp | ReadyToTakeover,
        Warn: AwaitingReservation | WaitingForGoods | StockOk | WaitingForCancel,
        Bad: Incorrect,
        Quiet: OnHold | Canceled,
    }
    HandoverState {
        Good: Accepted,
        Busy: Sending | Withdrawing,
        Bad: Refused,
        Quiet: Pending | Withdrawn,
    }
}

impl Toned for Course {
    fn toned(self) -> (&'static str, Tone) {
        let tone = match self {
            Self::Healthy => Tone::Good,
            Self::Paused => Tone::Warn,
            Self::Failing => Tone::Bad,
            Self::Inactive | Self::ByHand => Tone::Quiet,
        };
        (self.as_str(), tone)
    }
}

/// The state of a job, a chunk, a delivery, a webhook, an order, its hand-over, or a wms.
pub(crate) fn state(state: impl Toned) -> Markup {
    let (word, tone) = state.toned();
    badge(tone, &plain(word))
}

/// The state of a job, including refused items if it has succeeded.
pub(crate) fn job_state(of: JobState, total: i32, failed: i32, withheld: i32) -> Markup {
    match outcome(of, total, failed, withheld) {
        Some(JobOutcome::Partial) => badge(Tone::Warn, "partly refused"),
        Some(JobOutcome::Nothing) => badge(Tone::Bad, "all refused"),
        Some(JobOutcome::Withheld) => badge(Tone::Bad, "withheld"),
        Some(JobOutcome::Complete) | None => state(of),
    }
}
