//! The rows of a chunk, read and refused one by one, whatever their [`form`]; used by all syncs.

pub mod csv;
pub mod form;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use self::csv::IGNORED;
use self::form::{Form, Notice, Remarks};
use super::chunk::{Claim, Count};
use super::item_error::ItemError;
use super::kind::JobKind;
use super::outcome::Outcome;
use super::payload::{self, HEAVIEST_ROW, Unreadable};
use longshore_kernel::json::{self, REPEATED_KEY, Unread};
use longshore_kernel::problem::Violation;

/// The rows of a chunk: the valid ones, and the errors of the others.
#[derive(Debug)]
pub struct ReadRows<'c, R> {
    claim: &'c Claim,
    form: Form,
    /// All of them, each with the remarks about it.
    stored: Vec<(Remarks, Bytes)>,
    /// Rows that follow the rules.
    pub good: Vec<R>,
    /// Position in the chunk of each good row, and what it calls itself.
    named: Vec<(usize, Option<String>)>,
    errors: Vec<ItemError>,
}

/// Why a row is refused: for programs, for people, and the field that it is about.
type Refusal = (&'static str, String, Option<String>);

impl<'c, R> ReadRows<'c, R> {
    /// Unpacks the rows of a chunk and validates each.
    pub fn read(
        claim: &'c Claim,
        mut read: impl FnMut(Value) -> Result<R, Vec<Violation>>,
    ) -> Result<Self, Unreadable> {
        let form = Form::of(claim);
        let entries = payload::unpack_rows(&claim.payload)?;
        let stored: Vec<_> = entries.into_iter().map(|entry| form.read(entry)).collect();
        let (mut good, mut named, mut errors) = (Vec::with_capacity(stored.len()), Vec::new(), Vec::new());
        let doubled: HashMap<usize, Option<i64>> = claim
            .duplicates
            .iter()
            .filter_map(|of| Some((usize::try_from(of.position).ok()?, of.line_of_first)))
            .collect();
        let (key_member, repeated) = key_of(claim);
        for (position, (remarks, body)) in stored.iter().enumerate() {
            let value = value(remarks, body);
            let key = key(key_member, &value, remarks);
            let row = match (value, doubled.get(&position)) {
                (Ok(_), Some(line)) => {
                    let first = line.map_or_else(
                        || "an earlier row of this sync".to_owned(),
                        |line| format!("the row in line {line}"),
                    );
                    Err((repeated, format!("{first} has the same {key_member}"), Some(key_member.to_owned())))
                }
                (Ok(value), None) => {
                    read(value).map_err(|violations| broken(kind_of(claim), &form, &violations))
                }
                (Err(refusal), _) => Err(refusal),
            };
            match row {
                Ok(row) => {
                    good.push(row);
                    named.push((position, key));
                }
                Err(refusal) => errors.push(error(claim, position, body, key, refusal)),
            }
        }
        Ok(Self { claim, form, stored, good, named, errors })
    }

    /// Adds what reading the good rows did to them.
    #[must_use]
    pub fn noticing(mut self, notices: impl Fn(&R) -> Vec<Notice>) -> Self {
        for (row, (position, _)) in self.good.iter().zip(&self.named) {
            if let Some((remarks, _)) = self.stored.get_mut(*position) {
                remarks.notices.extend(notices(row));
            }
        }
        self
    }

    /// The position in the job of each good row.
    #[must_use]
    pub fn indexes(&self) -> Vec<i32> {
        self.named.iter().map(|(position, _)| self.claim.index(*position)).collect()
    }

    /// Counts the chunk. So many of its rows changed something, and these good ones were refused after all, each by its
    /// position among the good; the others were up to date. Notices of accepted rows are recorded beside the errors.
    #[must_use]
    pub fn outcome(
        self,
        changed: usize,
        refused: impl IntoIterator<Item = (usize, Vec<Violation>)>,
    ) -> Outcome {
        let Self { claim, form, stored, named, mut errors, .. } = self;
        for (good, violations) in refused {
            let Some((position, key)) = named.get(good) else { continue };
            let Some((_, body)) = stored.get(*position) else { continue };
            errors.push(error(
                claim,
                *position,
                body,
                key.clone(),
                broken(kind_of(claim), &form, &violations),
            ));
        }
        let [changed, failed] = [changed, errors.len()].map(|count| i32::try_from(count).unwrap_or(i32::MAX));
        let count = Count { changed, unchanged: claim.item_count - changed - failed, failed };
        let refused: HashSet<i32> = errors.iter().map(|error| error.index).collect();
        for (position, key) in named {
            let Some((Remarks { item, notices, .. }, body)) = stored.get(position) else { continue };
            if notices.is_empty() || refused.contains(&claim.index(position)) {
                continue;
            }
            let sentences: Vec<String> = notices
                .iter()
                .map(|notice| format!("{} {}", form.column(&notice.field), notice.message))
                .collect();
            let (key, field) = (item.clone().or(key), notices.first().map(|notice| notice.field.clone()));
            let notice = error(claim, position, body, key, ("notice", sentences.join("; "), field));
            errors.push(ItemError { notice: true, ..notice });
        }
        Outcome { count, errors }
    }
}

/// What a row calls itself, without taking it apart.
#[derive(Deserialize)]
pub(super) struct Key<'r> {
    #[serde(borrow, default, rename = "productSku")]
    product_sku: Option<Cow<'r, str>>,
    #[serde(borrow, default, rename = "orderNumber")]
    order_number: Option<Cow<'r, str>>,
    /// Whether it cancels an order that another row may create.
    #[serde(default)]
    cancel: Option<bool>,
}

impl<'r> Key<'r> {
    pub(super) fn of(row: &'r [u8]) -> Option<Self> {
        serde_json::from_slice(row).ok()
    }

    pub(super) fn name(self) -> Option<Cow<'r, str>> {
        self.product_sku.or(self.order_number)
    }

    /// The same, if only one row of a job may have it.
    pub(super) fn unique(self) -> Option<Cow<'r, str>> {
        let order_number = self.order_number.filter(|_| self.cancel != Some(true));
        self.product_sku.or(order_number)
    }
}

/// What each row of a chunk calls itself.
pub(super) fn keys(claim: &Claim) -> Result<Vec<Option<String>>, Unreadable> {
    let form = Form::of(claim);
    let entries = payload::unpack_rows(&claim.payload)?.into_iter();
    // the database has no text with U+0000, and so no record that is called so
    let name = |entry: Bytes| {
        let (_, body) = form.read(entry);
        let key = Key::of(&body)?.name()?.into_owned();
        Some(key).filter(|key| !key.contains('\0'))
    };
    Ok(entries.map(name).collect())
}

/// A row that was not stored yet, as it will be read.
#[derive(Debug)]
pub struct Seen {
    /// Its members, as far as it can be read.
    pub members: Map<String, Value>,
    /// Why its form refuses it: for programs, and for people.
    pub refused: Option<(&'static str, String)>,
}

impl Seen {
    /// Reads a row as it would be stored for a job of a kind, and validates it.
    pub fn of(
        kind: JobKind,
        form: &Form,
        row: Bytes,
        validate: impl FnOnce(Value) -> Result<(), Vec<Violation>>,
    ) -> Self {
        let (remarks, body) = form.read(row);
        let value = value(&remarks, &body);
        let members = value.as_ref().ok().and_then(Value::as_object).cloned().unwrap_or_default();
        let judged = value
            .and_then(|value| validate(value).map_err(|violations| broken(Some(kind), form, &violations)));
        Self { members, refused: judged.err().map(|(code, message, _)| (code, message)) }
    }
}

/// All items of a chunk, rows or ids, refused for one reason.
pub(super) fn all_refused(
    claim: &Claim,
    (code, message): (&'static str, &str),
) -> Result<Vec<ItemError>, Unreadable> {
    if !claim.has_rows() {
        let ids: Vec<Uuid> = payload::unpack_ids(&claim.payload)?;
        let items = ids.into_iter().enumerate().map(|(position, id)| ItemError {
            index: claim.index(position),
            line: claim.lines.of(position),
            key: Some(id.to_string()),
            code,
            message: message.to_owned(),
            field: None,
            payload: id.as_bytes().to_vec(),
            notice: false,
        });
        return Ok(items.collect());
    }
    let (form, (key_member, _)) = (Form::of(claim), key_of(claim));
    let rows = payload::unpack_rows(&claim.payload)?.into_iter().map(|entry| form.read(entry));
    let refused = rows.enumerate().map(|(position, (remarks, body))| {
        let value = value(&remarks, &body);
        let key = key(key_member, &value, &remarks);
        error(claim, position, &body, key, (code, message.to_owned(), None))
    });
    Ok(refused.collect())
}

/// What a row calls itself.
fn key(member: &str, value: &Result<Value, Refusal>, remarks: &Remarks) -> Option<String> {
    let key = value.as_ref().ok().and_then(|value| value.get(member)?.as_str());
    key.or(remarks.item.as_deref()).map(str::to_owned)
}

fn kind_of(claim: &Claim) -> Option<JobKind> {
    claim.kind.as_ref().ok().copied()
}

/// The member that identifies a row, and the code of one that an earlier row of the job is the same as.
fn key_of(claim: &Claim) -> (&'static str, &'static str) {
    let kind = kind_of(claim);
    (key_member(kind), if kind == Some(JobKind::ExpeditionSync) { "already_taken" } else { "duplicate" })
}

/// The member that identifies a row of such a job.
pub(super) fn key_member(kind: Option<JobKind>) -> &'static str {
    match kind {
        Some(JobKind::ExpeditionSync) => "orderNumber",
        Some(JobKind::ExpeditionNews) => "id",
        _ => "productSku",
    }
}

/// A row as a JSON object.
fn value(remarks: &Remarks, body: &[u8]) -> Result<Value, Refusal> {
    let malformed = |reason: &str| Err(("malformed_row", reason.to_owned(), None));
    if let Some(reason) = &remarks.refused {
        return Err((remarks.code.unwrap_or("malformed_row"), reason.clone(), None));
    }
    if json::weight(body) > HEAVIEST_ROW {
        return malformed("has too many values");
    }
    match json::parse(body) {
        Ok(Value::Object(mut members)) => {
            members.retain(|name, _| !name.starts_with(IGNORED));
            Ok(Value::Object(members))
        }
        Ok(_) => malformed("must be a JSON object"),
        Err(unread) => match (unread.to_string(), unread) {
            (message, Unread::Repeated(path)) => Err((REPEATED_KEY, message, Some(path))),
            (message, _) => malformed(&message),
        },
    }
}

/// Why a row that breaks rules is refused: all of them, in one sentence. One about an order has the code of the first.
fn broken(kind: Option<JobKind>, form: &Form, violations: &[Violation]) -> Refusal {
    let is_of_order = matches!(kind, Some(JobKind::ExpeditionSync | JobKind::ExpeditionNews));
    let code = match violations {
        [first, others @ ..] if is_of_order || others.is_empty() => first.code,
        _ => "invalid_data",
    };
    let sentence = |violation: &Violation| {
        let property_path = form.column(&violation.property_path).into_owned();
        Violation { property_path, ..violation.clone() }.to_string()
    };
    let sentences: Vec<String> = violations.iter().map(sentence).collect();
    let field = violations.first().map(|first| first.property_path.clone()).filter(|path| !path.is_empty());
    (code, sentences.join("; "), field)
}

fn error(
    claim: &Claim,
    position: usize,
    body: &[u8],
    key: Option<String>,
    (code, message, field): Refusal,
) -> ItemError {
    let (index, line) = (claim.index(position), claim.lines.of(position));
    ItemError { index, line, key, code, message, field, payload: body.to_vec(), notice: false }
}
