//! The result of a job that sends deliveries again, in a sentence.

use crate::job::kind::JobKind;
use longshore_kernel::figure::{counted, number};

/// What a job that sends again has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentAgain {
    /// Waiting deliveries that it released.
    pub released: i64,
    /// Ended ones that it sent again.
    pub resent: i64,
    /// What it found and left.
    pub left: i64,
}

/// What became of a job that sends again, in a sentence.
#[must_use]
pub fn sentence(kind: &str, SentAgain { released, resent, left }: SentAgain) -> Option<String> {
    let sentence = match kind.parse().ok()? {
        JobKind::WebhookRecover => {
            let released = match released {
                0 => "No waiting deliveries to release".to_owned(),
                count => format!("{} released", counted(count, "waiting delivery", "waiting deliveries")),
            };
            let resent = match resent {
                0 => "no failed ones to resend".to_owned(),
                count => format!("{} resent", counted(count, "failed one", "failed ones")),
            };
            format!("{released}; {resent}.")
        }
        JobKind::WebhookRedeliver => format!("{} resent.", counted(resent, "delivery", "deliveries")),
        JobKind::WebhookReplay => format!(
            "{} on the way again: {} released, {} resent.",
            counted(released + resent, "delivery is", "deliveries are"),
            number(released),
            number(resent)
        ),
        _ => return None,
    };
    let left = match left {
        0 => String::new(),
        left => format!(
            " {} left: sent again before or already due, or the event is no longer kept.",
            counted(left, "delivery was", "deliveries were")
        ),
    };
    Some(sentence + &left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_counts_released_and_resent_deliveries() {
        let outcome = |kind, released, resent| {
            sentence(kind, SentAgain { released, resent, left: 0 }).unwrap_or_default()
        };
        assert_eq!(
            outcome("webhook.recover", 1_140, 0),
            "1,140 waiting deliveries released; no failed ones to resend."
        );
        assert_eq!(
            outcome("webhook.recover", 0, 1),
            "No waiting deliveries to release; 1 failed one resent."
        );
        assert_eq!(outcome("webhook.redeliver", 0, 61_000), "61,000 deliveries resent.");
        assert_eq!(outcome("product.sync", 0, 0), "");
    }

    #[test]
    fn the_figures_of_a_replay_add_up() {
        let shown = |sent| sentence("webhook.replay", sent).unwrap_or_default();
        assert_eq!(
            shown(SentAgain { released: 1_140, resent: 20, left: 0 }),
            "1,160 deliveries are on the way again: 1,140 released, 20 resent."
        );
        assert_eq!(
            shown(SentAgain { released: 0, resent: 1, left: 2 }),
            "1 delivery is on the way again: 0 released, 1 resent. 2 deliveries were left: sent again before or already due, or the event is no longer kept."
        );
    }
}
