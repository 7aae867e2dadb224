//! Records with their related ones in them (`docs/reference/lists.md#nested`): one level deep, one query a relation.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use super::resource::{Field, Kind, Resource};
use super::sql::{Alias, Binder, Sql};
use super::{Request, refused, select};
use longshore_kernel::access::Scope;
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
    many: bool,
}

/// A row on its way to the wire.
#[derive(Debug)]
pub(super) struct Row {
    /// The record.
    pub(super) json: String,
    /// Ids of related records, one list a relation.
    related: Vec<Vec<Uuid>>,
}

impl Shape {
    pub(super) fn new(request: &Request) -> Self {
        let relation = |field: &'static Field| match field.kind {
            Kind::One(resource) => Some(Relation { field, resource, many: false }),
            Kind::Many(_, resource) => Some(Relation { field, resource, many: true }),
            _ => None,
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
        }
    }

    /// Reads a row that came back.
    pub(super) fn read(&self, row: &PgRow) -> Result<Row, sqlx::Error> {
        let mut related = Vec::with_capacity(self.related.len());
        for (position, relation) in self.related.iter().enumerate() {
            related.push(if relation.many {
                row.try_get(position + 1)?
            } else {
                row.try_get::<Option<Uuid>, _>(position + 1)?.into_iter().collect()
            });
        }
        Ok(Row { json: row.try_get(0)?, related })
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
            let mut ids: Vec<Uuid> = rows.iter().flat_map(|row| &row.related[position]).copied().collect();
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

impl Row {
    /// Appends a member: the related records, or the bare id of one that the caller may not see.
    fn append(&mut self, relation: &Relation, position: usize, records: &HashMap<Uuid, String>) {
        self.json.pop();
        if !self.json.ends_with('{') {
            self.json.push(',');
        }
        self.json.push('"');
        self.json.push_str(relation.field.name);
        self.json.push_str("\":");
        if relation.many {
            self.json.push('[');
        } else if self.related[position].is_empty() {
            self.json.push_str("null");
        }
        for (number, id) in self.related[position].iter().enumerate() {
            if number > 0 {
                self.json.push(',');
            }
            if let Some(record) = records.get(id) {
                self.json.push_str(record);
            } else {
                self.json.push('"');
                self.json.push_str(id.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
                self.json.push('"');
            }
        }
        if relation.many {
            self.json.push(']');
        }
        self.json.push('}');
    }
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
    sql.push("::text FROM ").push(resource.table).push(" ").alias(row).push(" WHERE ").alias(row);
    sql.push(".id = ANY(").piece(&wanted).push(")");
    binder.limit(&mut sql, &resource.tenancy, row);
    binder.settle(&mut sql);
    let query = sqlx::query_as_with(sql.finish(), binder.arguments()?);
    let found: Vec<(Uuid, String)> = query.fetch_all(connection).await.map_err(refused)?;
    Ok(found.into_iter().collect())
}
