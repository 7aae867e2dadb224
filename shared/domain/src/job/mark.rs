//! Syncs of two e-shops that write the same record, side by side: a field that the later one gave is not set back by the earlier
//! one (`docs/reference/jobs.md#order`).
//!
//! Each chunk of a sync looks whether an earlier sync of another line of its organisation is under way ([`Beside::marks`]).
//! Only then does it lock every record that its rows name, and **marks** it: with its own acceptance number, and the fields
//! that it gave, whether they were so already or not. A chunk that finds marks of later ones ([`Beside::heeds`]) reads,
//! when it holds the locks on what it is about to write, what they gave there, and leaves that out. A sync that found no
//! marks before writing, but finds some after, starts again ([`Beside::finish`]): from then on, the rows that it has locked
//! cannot be marked.
//!
//! That an earlier one is under way is never overlooked: syncs of an organisation are committed in the order of their numbers
//! ([`line`](super::line)). Marks that stay too long do no harm; the upkeep removes them when no earlier sync is left.

use std::collections::HashMap;

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::chunk::Claim;
use super::outcome::Fate;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::Problem;

/// What a chunk of a sync has to mind of others beside it.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    organisation: OrganisationId,
    acceptance: i64,
    /// An earlier one is under way in another line: what this one gives is marked.
    pub marks: bool,
    /// Later ones have left marks: what they gave is left out.
    pub heeds: bool,
}

impl Beside {
    /// Beside no other sync.
    #[must_use]
    pub fn alone(organisation: OrganisationId, acceptance: i64) -> Self {
        Self { organisation, acceptance, marks: false, heeds: false }
    }

    /// Looks at the syncs beside a chunk.
    pub async fn look(
        tx: &mut PgConnection,
        claim: &Claim,
        organisation: OrganisationId,
    ) -> Result<Self, sqlx::Error> {
        let found = sqlx::query!(
            r#"SELECT EXISTS (
                   SELECT FROM job e
                   WHERE e.organisation_id = $1 AND e.kind = $2 AND e.acceptance < $3
                     AND e.state IN ('queued', 'running', 'retrying') AND e.sequence <> $4
                     AND e.out_of_line_until IS NULL
               ) AS "marks!",
               EXISTS (SELECT FROM sync_mark WHERE organisation_id = $1 AND acceptance > $3) AS "heeds!""#,
            organisation.get(),
            claim.kind_name(),
            claim.acceptance,
            claim.sequence,
        )
        .fetch_one(tx)
        .await?;
        Ok(Self { organisation, acceptance: claim.acceptance, marks: found.marks, heeds: found.heeds })
    }

    /// After everything is written: if a later sync has left marks since the check, the chunk is executed again.
    pub async fn finish(&self, tx: &mut PgConnection) -> Result<(), Fate> {
        if self.heeds {
            return Ok(());
        }
        let is_overtaken = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM sync_mark WHERE organisation_id = $1 AND acceptance > $2) AS "later!""#,
            self.organisation.get(),
            self.acceptance,
        )
        .fetch_one(tx)
        .await?;
        if is_overtaken {
            return Err(Fate::Again("a later sync of the organisation has overtaken this one".to_owned()));
        }
        Ok(())
    }

    /// What later ones gave of records that are locked.
    pub(crate) async fn given_later(
        &self,
        tx: &mut PgConnection,
        entities: &[Uuid],
    ) -> Result<HashMap<Uuid, Vec<String>>, sqlx::Error> {
        let mut given: HashMap<Uuid, Vec<String>> = HashMap::new();
        if !self.heeds || entities.is_empty() {
            return Ok(given);
        }
        let marks = sqlx::query!(
            "SELECT entity_id, fields FROM sync_mark WHERE entity_id = ANY($1) AND acceptance > $2",
            entities,
            self.acceptance,
        )
        .fetch_all(tx)
        .await?;
        for mark in marks {
            given.entry(mark.entity_id).or_default().extend(mark.fields);
        }
        Ok(given)
    }

    /// Marks records with the fields that a chunk gave of each; they are locked.
    pub(crate) async fn mark(
        &self,
        tx: &mut PgConnection,
        given: impl IntoIterator<Item = (Uuid, Vec<&'static str>)>,
    ) -> Result<(), sqlx::Error> {
        let (entities, fields): (Vec<Uuid>, Vec<String>) =
            given.into_iter().map(|(entity, fields)| (entity, format!("{{{}}}", fields.join(",")))).unzip();
        sqlx::query!(
            "INSERT INTO sync_mark (organisation_id, entity_id, acceptance, fields)
             SELECT $1, m.entity, $2, m.fields::text[] FROM unnest($3::uuid[], $4::text[]) AS m (entity, fields)",
            self.organisation.get(),
            self.acceptance,
            &entities,
            &fields,
        )
        .execute(tx)
        .await?;
        Ok(())
    }
}

/// Removes up to `limit` marks without an earlier running sync; returns how many. Of each organisation that has marks, the first sync
/// is looked up once.
pub async fn expire(db: &PgPool, limit: i64) -> Result<u64, Problem> {
    let gone = sqlx::query!(
        "WITH RECURSIVE organisation (id) AS (
             (SELECT organisation_id FROM sync_mark ORDER BY organisation_id LIMIT 1)
             UNION ALL
             SELECT following.organisation_id
             FROM organisation o CROSS JOIN LATERAL (
                 SELECT organisation_id FROM sync_mark WHERE organisation_id > o.id
                 ORDER BY organisation_id LIMIT 1) AS following
         )
         DELETE FROM sync_mark WHERE ctid IN (
             SELECT gone.ctid FROM organisation o
             LEFT JOIN LATERAL (
                 SELECT e.acceptance FROM job e
                 WHERE e.organisation_id BETWEEN o.id AND o.id AND e.kind IN ('product.sync', 'stock.sync')
                   AND e.state IN ('queued', 'running', 'retrying') AND e.sequence IS NOT NULL AND e.out_of_line_until IS NULL
                 ORDER BY e.organisation_id, e.acceptance LIMIT 1) AS first ON true
             CROSS JOIN LATERAL (
                 SELECT m.ctid FROM sync_mark m
                 WHERE m.organisation_id = o.id AND m.acceptance <= coalesce(first.acceptance, 9223372036854775807)
                 LIMIT $1) AS gone
             LIMIT $1)",
        limit,
    )
    .execute(db)
    .await?;
    Ok(gone.rows_affected())
}
