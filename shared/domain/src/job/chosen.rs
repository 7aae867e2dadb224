//! What an operation on many records is about: ids, or all that match criteria (`docs/reference/jobs.md#bulk-by-criteria`).

use serde_json::Value;
use uuid::Uuid;

use crate::list::matching::{self, Matching};
use crate::list::resource::Resource;
use longshore_kernel::ids::Id;
use longshore_kernel::input::{Object, Reader, Rule, Schema, boolean, custom, integer, object};
use longshore_kernel::problem::Problem;

/// The records of an operation.
#[derive(Clone, Debug)]
pub enum Chosen {
    /// Those with these ids.
    Ids(Vec<Uuid>),
    /// Those that match.
    Matching(Wanted),
}

impl<T> From<Vec<Id<T>>> for Chosen {
    fn from(ids: Vec<Id<T>>) -> Self {
        Self::Ids(ids.into_iter().map(Id::get).collect())
    }
}

/// What is done with records: it, or a dry run of it.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// The records.
    pub chosen: Chosen,
    /// Whether it is only tried.
    pub is_dry_run: bool,
}

impl From<Chosen> for Bulk {
    fn from(chosen: Chosen) -> Self {
        Self { chosen, is_dry_run: false }
    }
}

impl<T> From<Vec<Id<T>>> for Bulk {
    fn from(ids: Vec<Id<T>>) -> Self {
        Chosen::from(ids).into()
    }
}

/// All that match criteria, and how many the caller expects.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What matches.
    pub matching: Matching,
    /// Another number is refused.
    pub expect: Option<i64>,
}

impl Wanted {
    /// Refuses another number of records than is expected, and none.
    pub(super) fn check(&self, count: i64) -> Result<(), Problem> {
        match self.expect {
            Some(expected) if expected != count => Err(Problem::count_differs(count, expected)),
            _ if count == 0 => Err(Problem::violation("criteria", "invalid_count", "matches nothing")),
            _ => Ok(()),
        }
    }
}

/// The member that asks for a dry run.
pub const DRY_RUN: &str = "dryRun";

/// The body of an operation that can be tried: as [`chosen`], and an object may say so.
pub fn bulk(ids: impl Rule<Out = Vec<Uuid>> + Clone, resource: &'static Resource) -> impl Rule<Out = Bulk> {
    read(ids, resource, true)
}

/// The body of an operation: an array of ids as `ids` reads it, an object with these, or one with criteria of a list.
pub fn chosen(
    ids: impl Rule<Out = Vec<Uuid>> + Clone,
    resource: &'static Resource,
) -> impl Rule<Out = Chosen> {
    read(ids, resource, false).then(|_, bulk| Some(bulk.chosen))
}

fn read(
    ids: impl Rule<Out = Vec<Uuid>> + Clone,
    resource: &'static Resource,
    can_be_tried: bool,
) -> impl Rule<Out = Bulk> {
    let dry_run = move |body: &mut Object<'_>| can_be_tried && body.optional_or(DRY_RUN, boolean(), false);
    let array = ids.clone();
    let by_ids = object(move |body: &mut Object<'_>| {
        let ids = body.required("ids", ids);
        for name in ["expect", "all"] {
            if body.has(name) {
                body.take(name);
                body.refuse(name, "not_allowed", "is for criteria only");
            }
        }
        let is_dry_run = dry_run(body);
        Some(Bulk { chosen: Chosen::Ids(ids?), is_dry_run })
    });
    let by_criteria = object(move |body: &mut Object<'_>| {
        let wanted = wanted(body, resource);
        let is_dry_run = dry_run(body);
        Some(Bulk { chosen: Chosen::Matching(wanted?), is_dry_run })
    });
    let forms = vec![array.schema(), by_ids.schema(), by_criteria.schema()];
    custom(Schema::Either(forms), move |reader: &mut Reader, value: Value| match &value {
        Value::Object(members) if members.contains_key("criteria") => by_criteria.apply(reader, value),
        Value::Object(members) if members.contains_key("ids") => by_ids.apply(reader, value),
        Value::Object(_) => {
            reader.refuse("required", "must have ids or criteria");
            None
        }
        _ => array.apply(reader, value).map(|ids| Chosen::Ids(ids).into()),
    })
}

fn wanted(body: &mut Object<'_>, resource: &'static Resource) -> Option<Wanted> {
    if body.has("ids") {
        body.take("ids");
        body.refuse("ids", "contradiction", "cannot be combined with criteria");
    }
    let matching = body.required("criteria", matching::rule(resource));
    let expect = body.optional("expect", integer(0..=i64::from(i32::MAX)));
    let all = body.optional_or("all", boolean(), false);
    if !all && matching.as_ref().is_some_and(Matching::is_everything) {
        let message = "must be true where criteria has no condition: every record that you may see is meant";
        body.refuse("all", "required", message);
    }
    Some(Wanted { matching: matching?, expect })
}
