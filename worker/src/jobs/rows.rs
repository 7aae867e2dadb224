//! The rows of a chunk, read and refused one by one; used by all syncs.

use std::collections::HashSet;

use bytes::Bytes;
use longshore_domain::job::chunk::{Claim, Count};
use longshore_domain::job::execution::Outcome;
use longshore_domain::job::item_error::ItemError;
use longshore_domain::job::payload::{self, HEAVIEST_ROW, Unreadable};
use longshore_domain::partner::push::Push;
use longshore_kernel::json::{self, REPEATED_KEY, Unread};
use longshore_kernel::problem::Violation;
use serde_json::Value;

use crate::partner::row::{Remarks, read_stored};

/// The rows of a chunk: the valid ones, and the errors of the others.
#[derive(Debug)]
pub struct ReadRows<R> {
    raw: Vec<Bytes>,
    /// The notices and refusals that the partner's code added to each row.
    remarks: Vec<Remarks>,
    /// Rows that follow the rules.
    pub good: Vec<R>,
    /// Position in the chunk of each good row.
    positions: Vec<usize>,
    errors: Vec<ItemError>,
    push: Push,
}

impl<R> ReadRows<R> {
    /// Unpacks the rows of a chunk and validates each.
    pub fn read(
        claim: &Claim,
        push: Push,
        mut read: impl FnMut(Value) -> Result<R, Vec<Violation>>,
    ) -> Result<Self, Unreadable> {
        let entries = payload::unpack_rows(&claim.payload)?;
        let fetched = claim.source.is_some();
        let (remarks, raw): (Vec<Remarks>, Vec<Bytes>) = entries
            .into_iter()
            .map(|entry| if fetched { read_stored(&entry) } else { (Remarks::default(), entry) })
            .unzip();
        let good = Vec::with_capacity(raw.len());
        let mut rows = Self { good, positions: Vec::new(), errors: Vec::new(), raw, remarks, push };
        let mut doubled = vec![false; rows.raw.len()];
        for position in &claim.duplicates {
            if let Some(flag) = usize::try_from(*position).ok().and_then(|p| doubled.get_mut(p)) {
                *flag = true;
            }
        }
        for (position, ((row, remarks), doubled)) in
            rows.raw.iter().zip(&rows.remarks).zip(doubled).enumerate()
        {
            let (index, line) = (claim.index(position), claim.lines.of(position));
            let item = || remarks.item.clone();
            let parsed = (json::weight(row) <= HEAVIEST_ROW).then(|| json::parse(row));
            let refused = match parsed {
                _ if remarks.refused.is_some() => {
                    Some(("malformed_row", item(), remarks.refused.clone().unwrap_or_default()))
                }
                None => Some(("malformed_row", item(), "has too many values".to_owned())),
                Some(Err(unread @ Unread::Malformed(_))) => {
                    Some(("malformed_row", item(), unread.to_string()))
                }
                Some(Err(unread @ Unread::Repeated(_))) => Some((REPEATED_KEY, item(), unread.to_string())),
                Some(Ok(value)) if !value.is_object() => {
                    Some(("malformed_row", item(), "must be a JSON object".to_owned()))
                }
                Some(Ok(value)) => {
                    let key =
                        value.get(push.key_member()).and_then(Value::as_str).map(str::to_owned).or_else(item);
                    if doubled {
                        let code = if push == Push::Expeditions { "already_taken" } else { "duplicate" };
                        let message =
                            format!("an earlier row of this sync has the same {}", push.key_member());
                        Some((code, key, message))
                    } else {
                        match read(value) {
                            Ok(good) => {
                                rows.good.push(good);
                                rows.positions.push(position);
                                None
                            }
                            Err(violations) => {
                                rows.errors.push(broken(push, index, line, key, &violations, row));
                                None
                            }
                        }
                    }
                }
            };
            if let Some((code, key, message)) = refused {
                rows.errors.push(ItemError {
                    index,
                    line,
                    key,
                    code,
                    message,
                    payload: row.to_vec(),
                    notice: false,
                });
            }
        }
        Ok(rows)
    }

    /// The position in the job of each good row.
    #[must_use]
    pub fn indexes(&self, claim: &Claim) -> Vec<i32> {
        self.positions.iter().map(|position| claim.index(*position)).collect()
    }

    /// Refuses a valid row after all, by its position among the valid ones.
    pub fn refuse(&mut self, claim: &Claim, good: usize, key: &str, violations: &[Violation]) {
        let Some(&position) = self.positions.get(good) else { return };
        let row = self.raw.get(position).map(AsRef::as_ref).unwrap_or_default();
        self.errors.push(broken(
            self.push,
            claim.index(position),
            claim.lines.of(position),
            Some(key.to_owned()),
            violations,
            row,
        ));
    }

    /// Counts the chunk; rows neither changed nor refused were up to date.
    #[must_use]
    pub fn outcome(mut self, claim: &Claim, changed: usize) -> Outcome {
        let changed = i32::try_from(changed).unwrap_or(i32::MAX);
        let failed = i32::try_from(self.errors.len()).unwrap_or(i32::MAX);
        self.notice(claim);
        let count = Count { changed, unchanged: claim.item_count - changed - failed, failed };
        Outcome { count, errors: self.errors }
    }

    /// Records the notices of accepted rows beside the errors of refused ones.
    fn notice(&mut self, claim: &Claim) {
        let refused: HashSet<i32> = self.errors.iter().map(|error| error.index).collect();
        for (position, (remarks, row)) in self.remarks.iter().zip(&self.raw).enumerate() {
            let index = claim.index(position);
            if remarks.notices.is_empty() || refused.contains(&index) {
                continue;
            }
            let sentences: Vec<String> =
                remarks.notices.iter().map(|notice| format!("{} {}", notice.field, notice.message)).collect();
            self.errors.push(ItemError {
                index,
                line: claim.lines.of(position),
                key: remarks.item.clone(),
                code: "notice",
                message: sentences.join("; "),
                payload: row.to_vec(),
                notice: true,
            });
        }
    }
}

/// The error of a row that breaks rules. One about an order has the code of the first of them.
fn broken(
    push: Push,
    index: i32,
    line: Option<i64>,
    key: Option<String>,
    violations: &[Violation],
    row: &[u8],
) -> ItemError {
    let error = ItemError::of_violations(index, line, key, violations, row);
    match violations.first() {
        Some(first) if matches!(push, Push::Expeditions | Push::News) => {
            ItemError { code: first.code, ..error }
        }
        _ => error,
    }
}
