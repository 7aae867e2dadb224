//! Records with their related ones in them (`docs/reference/lists.md#nested`): one level deep, one query a relation. A related
//! record is always an object: of one that the caller may not see, with its id only.

use std::collections::HashMap;

use serde_json::{Map, Value};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use super::resource::{Field, Kind, Resource};
use super::sql::{Alias, Binder, Sql};
use super::{Request, refused, select};
use longshore_kernel::access::Scope;
use longshore_kernel::json::compact;
use longshore_kernel::problem::Problem;

/// What the rows of a list look like.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Fields that Postgres puts into the record.
    plain: Vec<&'static Field>,
    /// Fields that are put there afterwards.
    related: Vec<Relation>,
}

#[derive(Clone, Copy, Debug)]
struct Relation {
    field: &'static Field,
    resource: &'static Resource,
    how: How,
}

/// Where the ids of related records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    One,
    Many,
    /// In this member of each object of an array.
    Within(&'static str),
}

/// The ids of a relation of one row.
#[derive(Debug)]
enum Ids {
    Plain(Vec<Uuid>),
    Within(Vec<Map<String, Value>>),
}

/// A row on its way to the wire.
#[derive(Debug)]
pub(super) struct Row {
    /// The record.
    pub(super) json: String,
    /// Ids of related records, for each relation.
    related: Vec<Ids>,
}

impl Shape {
    pub(super) fn new(request: &Request) -> Self {
        let relation = |field: &'static Field| match field.kind {
            Kind::One(resource) => Some(Relation { field, resource, how: How::One }),
            Kind::Many(_, resource) => Some(Relation { field, resource, how: How::Many }),
            _ => field.nests.map(|(member, resource)| Relation { field, resource, how: How::Within(member) }),
        };
        let (related, plain): (Vec<_>, Vec<_>) =
            request.select.iter().copied().partition(|field| request.nested && relation(field).is_some());
        Self { plain, related: related.into_iter().filter_map(relation).collect() }
    }

    /// What a row selects: the record as text, then the ids of each relation.
    pub(super) fn columns(&self, sql: &mut Sql) {
        sql.object(self.plain.iter().copied(), Alias::ROOT).push("::text");
        for relation in &self.related {
            sql.push(", ").shown(relation.field, Alias::ROOT);
            if matches!(relation.how, How::Within(_)) {
                sql.push("::text");
            }
        }
    }

    /// Reads a row that came back.
    pub(super) fn read(&self, row: &PgRow) -> Result<Row, sqlx::Error> {
        let mut related = Vec::with_capacity(self.related.len());
        for (position, relation) in self.related.iter().enumerate() {
            related.push(match relation.how {
                How::One => Ids::Plain(row.try_get::<Option<Uuid>, _>(position + 1)?.into_iter().collect()),
                How::Many => Ids::Plain(row.try_get(position + 1)?),
                How::Within(_) => {
                    let text: Option<String> = row.try_get(position + 1)?;
                    let objects = serde_json::from_str(text.as_deref().unwrap_or("[]"));
                    Ids::Within(objects.map_err(|error| sqlx::Error::Decode(error.into()))?)
                }
            });
        }
        Ok(Row { json: compact(row.try_get(0)?), related })
    }

    /// Whether a row is a record as it comes back, without related ones.
    pub(super) fn is_plain(&self) -> bool {
        self.related.is_empty()
    }

    /// Puts the related records in.
    pub(super) async fn expand(
        &self,
        connection: &mut PgConnection,
        scope: &Scope,
        rows: &mut [Row],
    ) -> Result<(), Problem> {
        for (position, relation) in self.related.iter().enumerate() {
            let mut ids: Vec<Uuid> =
                rows.iter().flat_map(|row| relation.ids(&row.related[position])).collect();
            ids.sort_unstable();
            ids.dedup();
            let records = fetch(connection, scope, relation.resource, &ids).await?;
            for row in &mut *rows {
                row.append(relation, position, &records);
            }
        }
        Ok(())
    }
}

impl Relation {
    fn ids(&self, of: &Ids) -> Vec<Uuid> {
        match (of, self.how) {
            (Ids::Plain(ids), _) => ids.clone(),
            (Ids::Within(objects), How::Within(member)) => {
                objects.iter().filter_map(|object| object.get(member)?.as_str()?.parse().ok()).collect()
            }
            (Ids::Within(_), _) => Vec::new(),
        }
    }
}

impl Row {
    /// Appends a member: the related records.
    fn append(&mut self, relation: &Relation, position: usize, records: &HashMap<Uuid, String>) {
        self.json.pop();
        if !self.json.ends_with('{') {
            self.json.push(',');
        }
        self.json.push('"');
        self.json.push_str(relation.field.name);
        self.json.push_str("\":");
        match (&self.related[position], relation.how) {
            (Ids::Plain(ids), How::Many) => {
                self.json.push('[');
                for (number, id) in ids.iter().enumerate() {
                    if number > 0 {
                        self.json.push(',');
                    }
                    push_related(&mut self.json, *id, records);
                }
                self.json.push(']');
            }
            (Ids::Plain(ids), _) => match ids.first() {
                Some(id) => push_related(&mut self.json, *id, records),
                None => self.json.push_str("null"),
            },
            (Ids::Within(objects), How::Within(member)) => {
                push_objects(&mut self.json, objects, member, records);
            }
            (Ids::Within(_), _) => self.json.push_str("[]"),
        }
        self.json.push('}');
    }
}

/// Appends the related record; of one that the caller may not see, the id.
fn push_related(json: &mut String, id: Uuid, records: &HashMap<Uuid, String>) {
    if let Some(record) = records.get(&id) {
        json.push_str(record);
    } else {
        json.push_str("{\"id\":\"");
        json.push_str(id.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
        json.push_str("\"}");
    }
}

/// Appends objects, with the related record in place of a member.
fn push_objects(
    json: &mut String,
    objects: &[Map<String, Value>],
    member: &str,
    records: &HashMap<Uuid, String>,
) {
    json.push('[');
    for (number, object) in objects.iter().enumerate() {
        json.push_str(if number > 0 { ",{" } else { "{" });
        for (number, (name, value)) in object.iter().enumerate() {
            if number > 0 {
                json.push(',');
            }
            json.push('"');
            // the names of fields need no escape
            json.push_str(name);
            json.push_str("\":");
            let id = value.as_str().filter(|_| name == member).and_then(|id| id.parse().ok());
            match id {
                Some(id) => push_related(json, id, records),
                None => json.push_str(&value.to_string()),
            }
        }
        json.push('}');
    }
    json.push(']');
}

/// The records of these ids that the caller may see.
async fn fetch(
    connection: &mut PgConnection,
    scope: &Scope,
    resource: &'static Resource,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, String>, Problem> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let mut binder = Binder::new(scope);
    let wanted = binder.bind(ids);
    let row = Alias::ROOT;
    let mut sql = Sql::default();
    sql.push("SELECT ").alias(row).push(".id, ").object(select::all(resource).into_iter(), row);
    sql.push("::text FROM ").table(resource).push(" ").alias(row).push(" WHERE ").alias(row);
    sql.push(".id = ANY(").piece(&wanted).push(")");
    binder.limit(&mut sql, &resource.tenancy, row);
    binder.settle(&mut sql);
    let query = sqlx::query_as_with(sql.finish(), binder.arguments()?);
    let found: Vec<(Uuid, String)> = query.fetch_all(connection).await.map_err(refused)?;
    Ok(found.into_iter().map(|(id, json)| (id, compact(&json))).collect())
}
