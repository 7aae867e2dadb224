//! Which events of its types a webhook is told of, and how much of each (`docs/reference/webhooks.md#criteria`).

use serde_json::Value;
use sqlx::PgConnection;

use crate::list::document::{self, Condition, Member};
use crate::list::or_empty_object;
use crate::webhook::event::member;
use longshore_kernel::input::{Reader, Rule, Schema, array, custom, text};
use longshore_kernel::problem::Violation;

/// Conditions of criteria.
const CONDITIONS: usize = 20;

/// Bytes of criteria, values in all of their conditions, and texts that are looked for: they are judged with each change.
const LONGEST: usize = 8 * 1024;
const VALUES: usize = 100;
const PATTERNS: usize = 2;

/// What `criteria` and `select` of a webhook say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::webhook) struct Filter {
    pub(in crate::webhook) criteria: Option<Value>,
    pub(in crate::webhook) select: Option<Vec<String>>,
}

impl Filter {
    /// What is wrong with it for a webhook, maybe of an organisation, that hears of events of these types; the conditions of its criteria, if nothing is.
    pub(in crate::webhook) fn judge(
        &self,
        kinds: &[String],
        of_organisation: bool,
    ) -> Result<Vec<Condition>, Vec<Violation>> {
        let mut reader = Reader::default();
        let find = |path: &str| match path {
            member::ESHOP if of_organisation => member::eshop(),
            _ => member::find(kinds, path),
        };
        let criteria = self.criteria.clone();
        let conditions = reader.member("criteria", |reader| conditions(reader, kinds, find, criteria));
        let known = member::names(kinds);
        reader.member("select", |reader| {
            for (index, name) in self.select.iter().flatten().enumerate() {
                if !known.contains(name) {
                    reader.element(index, |reader| {
                        reader.refuse_unknown(name, known.iter().map(String::as_str), OF_TYPES);
                    });
                }
            }
        });
        let violations = reader.into_violations();
        if violations.is_empty() { Ok(conditions.unwrap_or_default()) } else { Err(violations) }
    }

    /// Its criteria as Postgres judges by them; nothing: there are none.
    pub(in crate::webhook) async fn compiled(
        &self,
        connection: &mut PgConnection,
        conditions: &[Condition],
    ) -> Result<Option<String>, sqlx::Error> {
        match self.criteria {
            Some(_) => document::predicate(connection, conditions, member::unless_left_out).await.map(Some),
            None => Ok(None),
        }
    }
}

/// What follows on "is not a known field".
const OF_TYPES: &str = " of the event types";

fn conditions(
    reader: &mut Reader,
    kinds: &[String],
    find: impl Fn(&str) -> Vec<Member>,
    criteria: Option<Value>,
) -> Option<Vec<Condition>> {
    let criteria = criteria?;
    if criteria.to_string().len() > LONGEST {
        reader.refuse("too_large", format!("must have at most {LONGEST} bytes"));
        return None;
    }
    let conditions = document::read(reader, criteria, CONDITIONS, |reader, path| {
        let found = find(path);
        if found.is_empty() {
            let known = member::paths(kinds);
            reader.refuse_unknown(path, known.iter().map(String::as_str), OF_TYPES);
        }
        found
    })?;
    let (values, patterns) = document::weight(&conditions);
    if values > VALUES {
        reader.refuse("invalid_count", format!("must have at most {VALUES} values in all"));
    }
    if patterns > PATTERNS {
        reader.refuse("invalid_count", format!("must have `like` and `notLike` at most {PATTERNS} times"));
    }
    Some(conditions)
}

/// What `criteria` accepts; [`Filter::judge`] reads it, once it is known what the webhook hears of.
pub(super) fn criteria() -> impl Rule<Out = Value> + Clone {
    custom(Schema::AnyObject, |_: &mut Reader, value: Value| Some(or_empty_object(value)))
}

/// What `select` accepts.
pub(super) fn select() -> impl Rule<Out = Vec<String>> + Clone {
    array(0..=100, text(1..=64))
}
