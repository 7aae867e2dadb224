//! The rules of the hand-over, one by one.

use longshore_client::Uuid;
use serde_json::Value;

use super::answer::{Answer, Trouble};
use super::order::random_id;
use super::warehouse::{Signature, Warehouse};

/// A rule that a WMS keeps or breaks. Each is checked with orders of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Takes,
    Repeats,
    AtOnce,
    Lower,
    GivesBack,
    Withdrawn,
    Next,
    Later,
    Unknown,
    Overtaken,
    Refuses,
    Duplicate,
    ConnectionTest,
    TwoSignatures,
    Unsigned,
    Forged,
    Altered,
    Old,
    ForgedWithdrawal,
    ForgedTest,
}

/// What was found about a rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Kept,
    /// With what the WMS did.
    Broken(String),
    /// With the reason.
    Unchecked(&'static str),
}

impl Verdict {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Broken(_) => "broken",
            Self::Unchecked(_) => "unchecked",
        }
    }

    pub(super) fn found(&self) -> Option<&str> {
        match self {
            Self::Kept => None,
            Self::Broken(found) => Some(found),
            Self::Unchecked(why) => Some(why),
        }
    }
}

/// Why an out-of-date hand-over must not be taken.
const LATE: &str = "it may have been on its way";

impl Rule {
    /// All of them, in the order in which they are checked.
    pub(super) const ALL: [Self; 20] = [
        Self::Takes,
        Self::Repeats,
        Self::AtOnce,
        Self::Lower,
        Self::GivesBack,
        Self::Withdrawn,
        Self::Next,
        Self::Later,
        Self::Unknown,
        Self::Overtaken,
        Self::Refuses,
        Self::Duplicate,
        Self::ConnectionTest,
        Self::TwoSignatures,
        Self::Unsigned,
        Self::Forged,
        Self::Altered,
        Self::Old,
        Self::ForgedWithdrawal,
        Self::ForgedTest,
    ];

    /// Its name, for programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Takes => "takes",
            Self::Repeats => "repeats",
            Self::AtOnce => "at_once",
            Self::Lower => "lower",
            Self::GivesBack => "gives_back",
            Self::Withdrawn => "withdrawn",
            Self::Next => "next",
            Self::Later => "later",
            Self::Unknown => "unknown",
            Self::Overtaken => "overtaken",
            Self::Refuses => "refuses",
            Self::Duplicate => "duplicate",
            Self::ConnectionTest => "connection_test",
            Self::TwoSignatures => "two_signatures",
            Self::Unsigned => "unsigned",
            Self::Forged => "forged",
            Self::Altered => "altered",
            Self::Old => "old",
            Self::ForgedWithdrawal => "forged_withdrawal",
            Self::ForgedTest => "forged_test",
        }
    }

    /// The rule as a sentence.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Takes => "an order is taken",
            Self::Repeats => "the same number again is the same hand-over",
            Self::AtOnce => "the same number twice at once is one hand-over",
            Self::Lower => "a lower number than a known one is 410",
            Self::GivesBack => "an order is given back, and asking again changes nothing",
            Self::Withdrawn => "a number that was withdrawn is 410",
            Self::Next => "the number after a withdrawn one is taken",
            Self::Later => "a late withdrawal leaves a higher number alone",
            Self::Unknown => "a withdrawal of an unknown order is answered",
            Self::Overtaken => "a withdrawal that came before its hand-over counts",
            Self::Refuses => "a refusal says why, and stays",
            Self::Duplicate => "an order that it has under another id is refused",
            Self::ConnectionTest => "a connection test is answered 404 and changes nothing",
            Self::TwoSignatures => "one valid signature of several is enough",
            Self::Unsigned => "a call without a signature is refused",
            Self::Forged => "a call that is signed by another secret is refused",
            Self::Altered => "a call with another body than the signed one is refused",
            Self::Old => "a call that is older than five minutes is refused",
            Self::ForgedWithdrawal => "a forged withdrawal is refused",
            Self::ForgedTest => "a forged connection test is refused",
        }
    }

    /// What is missing to check it.
    pub(super) fn needs(self, wms: &Warehouse) -> Option<&'static str> {
        match self {
            Self::Refuses if wms.refused_sku.is_none() => Some("give --refused-sku"),
            Self::TwoSignatures
            | Self::Unsigned
            | Self::Forged
            | Self::Altered
            | Self::Old
            | Self::ForgedWithdrawal
            | Self::ForgedTest
                if !wms.signs() =>
            {
                Some("give --secret")
            }
            _ => None,
        }
    }

    /// Checks it with a new order.
    pub(super) async fn check(self, wms: &Warehouse) -> Result<(), Trouble> {
        let id = random_id();
        match self {
            Self::Takes => wms.put(id, 1).await?.taken().map(drop),
            Self::Repeats => {
                let first = wms.put(id, 1).await?.taken()?;
                same(&first, &wms.put(id, 1).await?.has()?)?;
                // the number decides, not the body
                same(&first, &wms.put_edited(id, 1).await?.has()?)
            }
            Self::AtOnce => {
                let (first, second) = tokio::join!(wms.put(id, 1), wms.put(id, 1));
                same(&first?.has()?, &second?.has()?)
            }
            Self::Lower => {
                wms.put(id, 2).await?.taken()?;
                wms.put(id, 1).await?.out_of_date(LATE).map(drop)
            }
            Self::GivesBack => {
                wms.put(id, 1).await?.taken()?;
                let why = "an order that is not being picked is given back: 200 or 204";
                wms.delete(id, 1).await?.one_of(&[200, 204], why)?;
                wms.delete(id, 1).await?.given_back().map(drop)
            }
            Self::Withdrawn => {
                withdraw(wms, id).await?;
                wms.put(id, 1).await?.out_of_date(LATE).map(drop)
            }
            Self::Next => {
                withdraw(wms, id).await?;
                wms.put(id, 2).await?.taken().map(drop)
            }
            Self::Later => {
                withdraw(wms, id).await?;
                let second = wms.put(id, 2).await?.taken()?;
                wms.delete(id, 1).await?.given_back()?;
                let again = wms.put(id, 2).await?;
                if again.status == 410 {
                    return Err(again.broken("a second DELETE of number 1 had no right to withdraw number 2"));
                }
                same(&second, &again.has()?)
            }
            Self::Unknown => wms.delete(id, 1).await?.given_back().map(drop),
            Self::Overtaken => overtaken(wms, id).await,
            Self::Refuses => match &wms.refused_sku {
                Some(sku) => refuses(wms, id, sku).await,
                None => Ok(()),
            },
            Self::Duplicate => duplicate(wms, id).await,
            Self::ConnectionTest => {
                denies(&wms.get(id, Signature::Good).await?)?;
                wms.put(id, 1).await?.taken().map(drop)
            }
            Self::TwoSignatures => wms.put_signed(id, 1, Signature::Rotated).await?.taken().map(drop),
            Self::Unsigned => mistrusted(wms, id, Signature::Missing, "anyone can make such a call").await,
            Self::Forged => mistrusted(wms, id, Signature::Forged, "it does not come from Longshore").await,
            Self::Altered => mistrusted(wms, id, Signature::OfOther, "it was changed on its way").await,
            Self::Old => {
                mistrusted(wms, id, Signature::Old, "it may have been recorded and sent again").await
            }
            Self::ForgedWithdrawal => {
                let first = wms.put(id, 1).await?.taken()?;
                let why = "it would take an order away";
                for signature in [Signature::Missing, Signature::Forged, Signature::Old] {
                    wms.delete_signed(id, 1, signature).await?.mistrusted(why)?;
                }
                same(&first, &wms.put(id, 1).await?.has()?)
            }
            Self::ForgedTest => {
                denies(&wms.get(id, Signature::Good).await?)?;
                let why = "otherwise the test says nothing about the credentials and the secret";
                for signature in [Signature::Missing, Signature::Forged, Signature::Old] {
                    wms.get(id, signature).await?.mistrusted(why)?;
                }
                Ok(())
            }
        }
    }
}

/// The answer to a connection test of a WMS that has no such order. One that does not know the call breaks no rule.
fn denies(answer: &Answer) -> Result<(), Trouble> {
    match answer.status.as_u16() {
        404 | 410 => Ok(()),
        405 | 501 => Err(Trouble::Unchecked("the WMS does not know connection tests")),
        _ => Err(answer.broken("it asks for an order that does not exist: it must be 404")),
    }
}

/// Hands number 1 over and withdraws it.
async fn withdraw(wms: &Warehouse, id: Uuid) -> Result<(), Trouble> {
    wms.put(id, 1).await?.taken()?;
    wms.delete(id, 1).await?.given_back().map(drop)
}

/// The withdrawal is the first that the WMS hears of the order.
async fn overtaken(wms: &Warehouse, id: Uuid) -> Result<(), Trouble> {
    wms.delete(id, 3).await?.given_back()?;
    wms.put(id, 3).await?.out_of_date("a DELETE of number 3 came before it")?;
    wms.put(id, 2).await?.out_of_date("a DELETE of number 3 came before it")?;
    wms.put(id, 4).await?.taken().map(drop)
}

/// A refusal has reasons, which go to the e-shop. It applies to that number, also with another body; the next number is judged anew.
async fn refuses(wms: &Warehouse, id: Uuid, sku: &str) -> Result<(), Trouble> {
    for _ in 0..2 {
        let answer = wms.put_refused(id, 1, sku).await?.one_of(&[422], "an order that is refused is 422")?;
        let violations = answer.body["violations"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_reason =
            |violation: &Value| violation["message"].as_str().is_some_and(|text| !text.is_empty());
        if violations.is_empty() || !violations.iter().all(is_reason) {
            return Err(answer
                .broken("it needs JSON with `violations`, each with a `message`, which the e-shop reads"));
        }
    }
    let why = "a number that was refused stays refused, also with another body: 422 or 410";
    wms.put(id, 1).await?.one_of(&[422, 410], why)?;
    wms.put(id, 2).await?.taken().map(drop)
}

/// The order is there under another id: after a restore, Longshore may hand an order over for the second time, and would have it
/// shipped twice. Once the first is given back, the second is taken.
async fn duplicate(wms: &Warehouse, first: Uuid) -> Result<(), Trouble> {
    let second = random_id();
    wms.put(first, 1).await?.taken()?;
    let answer = wms.put_again(second, 1, first).await?;
    let is_taken = answer.status.is_success() || answer.status == 409;
    let why = if is_taken {
        "it has the order of this eshop and orderNumber under another id, and would ship it twice: it must be 422"
    } else {
        "an order whose eshop and orderNumber it has under another id is 422"
    };
    let answer = answer.one_of(&[422], why)?;
    let violations = answer.body["violations"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !violations.iter().any(|violation| violation["code"] == "duplicate_order") {
        return Err(answer.broken("one of its `violations` needs the `code` duplicate_order"));
    }
    wms.delete(first, 1).await?.given_back()?;
    wms.put_again(second, 2, first).await?.taken().map(drop)
}

/// A call that must not be believed leaves nothing: the order is unknown after it.
async fn mistrusted(wms: &Warehouse, id: Uuid, signature: Signature, why: &str) -> Result<(), Trouble> {
    wms.put_signed(id, 1, signature).await?.mistrusted(why)?;
    wms.put(id, 1).await?.taken().map(drop)
}

/// Both answers are about one hand-over, as far as they name it.
fn same(first: &Answer, second: &Answer) -> Result<(), Trouble> {
    match (first.id(), second.id()) {
        (Some(one), Some(other)) if one != other => {
            let what = format!(
                "{} was answered with wmsInternalId {one:?} and then {other:?}: it is two hand-overs",
                first.call
            );
            Err(Trouble::Broken(what))
        }
        _ => Ok(()),
    }
}
