//! Records that are created and changed by a body of their fields: one flow for all of them.
//!
//! # Who takes part
//!
//! - [`record_fields!`](crate::record_fields) is the table of a record: each field with its name in JSON, as it is given
//!   and as it is stored, and its rule. What a body gives, the stored row and the differences of the two come from it.
//! - [`Editable`] says the rest of a resource: how it is looked at, what its references must be, how it is written.
//! - [`create`], [`update`] and [`insert`] are the use-cases: read, judge, write, answer, in one transaction.
//!
//! # What is guaranteed
//!
//! All violations of a body are reported together. A record that was read can be sent back: see [`echo`](longshore_kernel::echo). An update
//! locks the record first, so that `If-Match` and the
//! rules judge what is overwritten; one that changes nothing writes nothing. What is written is audited, field by field.

mod change;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

pub use self::change::{FieldChange, changes_json, creation, event_data, moment, shrunk, within_limit};
use crate::list;
use crate::list::resource::Resource;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::echo::Echo;
use longshore_kernel::ids::{self, OrganisationId};
use longshore_kernel::input::{Given, Object, Reader, Rule, Schema, object};
use longshore_kernel::problem::{Problem, Violation, with_found};
use longshore_kernel::quota::Kind;
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::violated_constraint;
use longshore_kernel::tombstone;

/// A field as a body gives it, beside the field as it is stored.
pub trait Gives<S>: Sized {
    /// What its rule makes of it.
    type Value;
    /// Takes it from a body.
    fn read<R: Rule<Out = Self::Value>>(
        object: &mut Object<'_>,
        name: &'static str,
        is_required: bool,
        rule: R,
    ) -> Self;
    /// What the field becomes, when that is another value than it has.
    fn other_than(&self, stored: &S) -> Option<Value>;
    /// Puts it in the place of what was stored.
    fn replace(self, stored: &mut S);
}

impl<T: PartialEq + Serialize> Gives<T> for Option<T> {
    type Value = T;

    fn read<R: Rule<Out = T>>(
        object: &mut Object<'_>,
        name: &'static str,
        is_required: bool,
        rule: R,
    ) -> Self {
        object.required_if(is_required, name, rule)
    }

    fn other_than(&self, stored: &T) -> Option<Value> {
        self.as_ref().filter(|given| *given != stored).map(|given| json!(given))
    }

    fn replace(self, stored: &mut T) {
        if let Some(given) = self {
            *stored = given;
        }
    }
}

impl<T: PartialEq + Serialize> Gives<Option<T>> for Given<T> {
    type Value = T;

    fn read<R: Rule<Out = T>>(object: &mut Object<'_>, name: &'static str, _: bool, rule: R) -> Self {
        object.nullable(name, rule)
    }

    fn other_than(&self, stored: &Option<T>) -> Option<Value> {
        match self {
            Self::Absent => None,
            Self::Null => stored.is_some().then_some(Value::Null),
            Self::Value(given) => (stored.as_ref() != Some(given)).then(|| json!(given)),
        }
    }

    fn replace(self, stored: &mut Option<T>) {
        *stored = self.or_keep(stored.take());
    }
}

/// A record with a table of fields; made by [`record_fields!`](crate::record_fields).
pub trait Record: Clone + Send + Sync {
    /// What a body gives of it: absent fields stay as they are.
    type Fields: Clone + Default + Send + Sync;
    /// Takes the fields from a body.
    fn read(object: &mut Object<'_>, required: &[&str]) -> Self::Fields;
    /// Puts what was given in place.
    fn give(&mut self, given: Self::Fields);
    /// What the given fields would change.
    fn diff(&self, given: &Self::Fields) -> Vec<FieldChange>;
    /// What it says as a new record.
    fn creation(&self) -> Vec<FieldChange>;
    /// Its id.
    fn id(&self) -> Uuid;
    /// Its version.
    fn version(&self) -> i64;
}

/// Declares a record and what a body gives of it: `field, "name": given type => stored type, rule;`. A field is given as
/// `Option` where it always holds something, as [`Given`] where it may be null.
#[macro_export]
macro_rules! record_fields {
    (
        $(#[$stored_doc:meta])* $stored:ident
        $(#[$given_doc:meta])* $given:ident
        { $($(#[$doc:meta])* $field:ident, $name:literal: $gives:ty => $stores:ty, $rule:expr;)* }
    ) => {
        $(#[$stored_doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $stored {
            /// Identifier.
            pub id: uuid::Uuid,
            $($(#[$doc])* pub $field: $stores,)*
            /// Its version: one higher with each change; 0 before it is written.
            pub version: i64,
        }

        $(#[$given_doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $given {
            $($(#[$doc])* pub $field: $gives,)*
        }

        impl $crate::record::Record for $stored {
            type Fields = $given;

            fn read(object: &mut longshore_kernel::input::Object<'_>, required: &[&str]) -> $given {
                $given {
                    $($field: <$gives as $crate::record::Gives<$stores>>::read(
                        object, $name, required.contains(&$name), $rule,
                    ),)*
                }
            }

            fn give(&mut self, given: $given) {
                $($crate::record::Gives::<$stores>::replace(given.$field, &mut self.$field);)*
            }

            fn diff(&self, given: &$given) -> Vec<$crate::record::FieldChange> {
                let mut changes = Vec::new();
                $(
                    if let Some(new) = $crate::record::Gives::<$stores>::other_than(&given.$field, &self.$field) {
                        let old = serde_json::json!(self.$field);
                        changes.push($crate::record::FieldChange { field: $name, old, new });
                    }
                )*
                changes
            }

            fn creation(&self) -> Vec<$crate::record::FieldChange> {
                $crate::record::creation([$(($name, serde_json::json!(self.$field))),*])
            }

            fn id(&self) -> uuid::Uuid {
                self.id
            }

            fn version(&self) -> i64 {
                self.version
            }
        }
    };
}

/// A unique value: the constraint that keeps it, its field, and what to say of a second one.
#[derive(Clone, Copy, Debug)]
pub struct Unique {
    /// Name of the constraint.
    pub constraint: &'static str,
    /// Name of the field in JSON.
    pub field: &'static str,
    /// Names of the fields among whose records it is unique; none: among all.
    pub within: &'static [&'static str],
    /// What to say.
    pub message: &'static str,
}

/// What is being judged: a record as it would be stored, beside what it was and what was given.
pub struct Judged<'j, R: Record> {
    /// The record with what was given in place.
    pub new: &'j R,
    /// As it was; absent for a new one.
    pub old: Option<&'j R>,
    /// What was given.
    pub given: &'j R::Fields,
    /// Whose records the caller may refer to.
    pub scope: &'j Scope,
    /// What the rules refused; a refused field counts as absent, and a refused element of an array is blank.
    pub refused: &'j [Violation],
}

/// A resource whose records are created and changed by a body of their fields.
pub trait Editable: Record {
    /// How it is shown; its name is that of the audit's entity type.
    const RESOURCE: &'static Resource;
    /// Path of its operations.
    const PATH: &'static str;
    /// Entity type in the audit.
    const ENTITY: &'static str;
    /// What a create must say.
    const REQUIRED: &'static [&'static str];
    /// Values that must be unique.
    const UNIQUE: &'static [Unique] = &[];

    /// A record that says nothing yet, with the defaults of its fields.
    fn blank(id: Uuid) -> Self;

    /// The quota that one more of it needs room in, and whose that is.
    fn quota(&self) -> Option<(Kind, OrganisationId)> {
        None
    }

    /// The record, locked, if it is in the scope.
    fn lock(
        connection: &mut PgConnection,
        scope: &Scope,
        id: Uuid,
    ) -> impl Future<Output = Result<Option<Self>, sqlx::Error>> + Send;

    /// What is wrong with what the record refers to, and with what its fields make together.
    fn judge(
        connection: &mut PgConnection,
        judged: Judged<'_, Self>,
    ) -> impl Future<Output = Result<Vec<Violation>, Problem>> + Send;

    /// Brings what was given into the form in which it is stored, after it was judged as it came.
    fn settle(_: &mut Self::Fields) {}

    /// Writes the record, new or locked, by `record_change!`.
    fn write(
        &self,
        connection: &mut PgConnection,
        origin: &Origin,
        action: &str,
        changes: &[FieldChange],
    ) -> impl Future<Output = Result<Recorded, sqlx::Error>> + Send;
}

/// What the body of a create or of an update accepts.
#[must_use]
pub fn schema<R: Editable>(is_new: bool) -> Schema {
    if is_new {
        let defaults = R::blank(Uuid::nil()).creation().into_iter().map(|field| (field.field, field.new));
        Object::schema(|object| R::read(object, R::REQUIRED)).with_defaults(defaults)
    } else {
        Object::schema(|object| R::read(object, &[]))
    }
}

/// Creates a record, and answers with it.
pub async fn create<R: Editable>(
    services: &Services,
    context: &Context,
    body: Value,
) -> Result<Answer, Problem> {
    let (given, _, refused) = read::<R>(body, true);
    let scope = context.scope();
    let mut change = Change::begin(services).await?;
    let id = match add::<R>(&mut change, &context.origin, scope, given, refused).await {
        Ok(id) => id,
        Err(unwritten) => {
            drop(change);
            return Err(unwritten.problem::<R>(services, scope).await);
        }
    };
    let record = shown::<R>(&mut change, scope, id).await?;
    let answer = Answer::created(location::<R>(id), record.version, record.json);
    change.answer(context.claim, answer).await
}

/// Creates a record internally, without a scope; returns its id.
pub async fn insert<R: Editable>(
    services: &Services,
    origin: &Origin,
    given: R::Fields,
) -> Result<Uuid, Problem> {
    let mut change = Change::begin(services).await?;
    match add::<R>(&mut change, origin, &Scope::Everything, given, Vec::new()).await {
        Ok(id) => change.commit().await.map(|()| id),
        Err(unwritten) => {
            drop(change);
            Err(unwritten.problem::<R>(services, &Scope::Everything).await)
        }
    }
}

async fn add<R: Editable>(
    change: &mut Change<'_>,
    origin: &Origin,
    scope: &Scope,
    mut given: R::Fields,
    refused: Vec<Violation>,
) -> Result<Uuid, Unwritten> {
    let mut new = R::blank(ids::new_id());
    new.give(given.clone());
    let judged = Judged { new: &new, old: None, given: &given, scope, refused: &refused };
    let found = R::judge(change.connection(), judged).await?;
    Problem::refuse(with_found(refused, found))?;
    if let Some((kind, organisation)) = new.quota() {
        change.must_have_room(organisation, kind).await?;
    }
    R::settle(&mut given);
    new.give(given);
    write(change, origin, "create", &new, &new.creation()).await?;
    Ok(new.id())
}

/// Changes the given fields of a record, and answers with it. `check` judges the version that the change starts from
/// (`If-Match`).
pub async fn update<R: Editable>(
    services: &Services,
    context: &Context,
    id: Uuid,
    body: Value,
    check: impl FnOnce(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let (mut given, echo, refused) = read::<R>(body, false);
    let scope = context.scope();
    let mut change = Change::begin(services).await?;
    let Some(old) = R::lock(change.connection(), scope, id).await? else {
        return Err(tombstone::missing(change.connection(), scope, R::RESOURCE.name, id).await);
    };
    check(old.version())?;
    let mut new = old.clone();
    new.give(given.clone());
    let judged = Judged { new: &new, old: Some(&old), given: &given, scope, refused: &refused };
    let mut found = R::judge(change.connection(), judged).await?;
    if !echo.is_empty() {
        found.extend(echo.judge(&shown::<R>(&mut change, scope, id).await?.json)?);
    }
    Problem::refuse(with_found(refused, found))?;
    R::settle(&mut given);
    let changes = old.diff(&given);
    if !changes.is_empty() {
        new.give(given);
        if let Err(unwritten) = write(&mut change, &context.origin, "update", &new, &changes).await {
            drop(change);
            return Err(unwritten.problem::<R>(services, scope).await);
        }
    }
    let record = shown::<R>(&mut change, scope, id).await?;
    let answer = Answer::updated(location::<R>(id), record.version, record.json);
    change.answer(context.claim, answer).await
}

/// What a body gives, its read-only members, and what is wrong.
fn read<R: Editable>(body: Value, is_new: bool) -> (R::Fields, Echo, Vec<Violation>) {
    let rule = object(|object| {
        let given = R::read(object, if is_new { R::REQUIRED } else { &[] });
        Some((given, Echo::of(object, is_new, |name| R::RESOURCE.shows(name))))
    });
    let ((given, echo), refused) = Reader::draft(body, rule);
    (given, echo, refused)
}

/// Why a record was not written.
enum Unwritten {
    /// A value that must be unique is another record's: the criteria that find it.
    Taken(&'static Unique, Value),
    Refused(Problem),
}

impl<P: Into<Problem>> From<P> for Unwritten {
    fn from(problem: P) -> Self {
        Self::Refused(problem.into())
    }
}

impl Unwritten {
    /// The problem, after the transaction has ended: a failed transaction could not look up the other record.
    async fn problem<R: Editable>(self, services: &Services, scope: &Scope) -> Problem {
        match self {
            Self::Refused(problem) => problem,
            Self::Taken(unique, criteria) => {
                match list::first_id(services, R::RESOURCE, scope, criteria).await {
                    Ok(other) => {
                        Problem::invalid(vec![Violation::taken(unique.field, unique.message, other)])
                    }
                    Err(problem) => problem,
                }
            }
        }
    }
}

async fn write<R: Editable>(
    change: &mut Change<'_>,
    origin: &Origin,
    verb: &str,
    record: &R,
    changes: &[FieldChange],
) -> Result<(), Unwritten> {
    let action = format!("{}.{verb}", R::ENTITY);
    match record.write(change.connection(), origin, &action, changes).await {
        Ok(recorded) => {
            change.note(recorded);
            Ok(())
        }
        Err(error) => {
            let constraint = violated_constraint(&error);
            match R::UNIQUE.iter().find(|unique| Some(unique.constraint) == constraint) {
                Some(unique) => {
                    let key = record
                        .creation()
                        .into_iter()
                        .filter(|given| given.field == unique.field || unique.within.contains(&given.field));
                    let mut criteria: Map<_, _> =
                        key.map(|given| (given.field.to_owned(), json!({"eq": given.new}))).collect();
                    // null counts as one value
                    for field in unique.within {
                        criteria.entry(*field).or_insert_with(|| json!({"null": true}));
                    }
                    Err(Unwritten::Taken(unique, criteria.into()))
                }
                None => Err(error.into()),
            }
        }
    }
}

/// The record as the interface shows it, in the transaction that has just written it.
async fn shown<R: Editable>(
    change: &mut Change<'_>,
    scope: &Scope,
    id: Uuid,
) -> Result<list::Record, Problem> {
    let found = list::find(change.connection(), R::RESOURCE, scope, id).await?;
    found.ok_or_else(|| Problem::not_found(R::RESOURCE.name))
}

fn location<R: Editable>(id: Uuid) -> String {
    format!("{}/{id}", R::PATH)
}

/// Where a field that never changes is given another value.
#[must_use]
pub fn moved<I: PartialEq + Copy>(field: &'static str, given: Option<I>, stored: I) -> Option<Violation> {
    given.filter(|id| *id != stored).map(|_| Violation::new(field, "not_allowed", "cannot be changed"))
}

/// Ids of related records in the form in which they are stored: sorted, each once.
pub fn settle_ids<I: Ord>(ids: &mut Option<Vec<I>>) {
    if let Some(ids) = ids {
        ids.sort_unstable();
        ids.dedup();
    }
}
