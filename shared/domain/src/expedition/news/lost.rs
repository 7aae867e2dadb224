//! Orders that a warehouse reports of since Postgres was set back, and that are not here
//! (`docs/reference/orders.md#lost-orders`): one row an order and wms, with the last report.
//!
//! They were made after the backup, so only the warehouse has them. A row goes when a person dismisses it, when the order
//! exists again, and after 90 days (`retention`).

use std::collections::{BTreeMap, HashSet};

use sqlx::PgConnection;
use uuid::Uuid;

use super::Placed;
use super::row::About;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{ExpeditionId, OrganisationId, WmsId};
use longshore_kernel::problem::{Problem, Violation};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Orders of a wms that are kept.
pub const MOST: i64 = 1_000;
/// Bytes of a report that is kept whole; of a longer one is kept what the audit keeps.
const LONGEST: usize = 16 * 1024;

/// What is kept of an order.
struct Lost {
    /// The highest number that was reported.
    number: Option<i32>,
    /// The last report.
    report: String,
}

/// Where reports of unknown orders of a wms are kept.
#[derive(Default)]
pub(super) struct Shelf {
    /// Postgres was set back.
    is_open: bool,
    /// Orders that more are kept of.
    room: i64,
    /// Orders that are kept already.
    kept: HashSet<Uuid>,
    /// Orders of the organisation in another wms.
    elsewhere: HashSet<Uuid>,
    lost: BTreeMap<Uuid, Lost>,
}

impl Shelf {
    pub(super) async fn open(
        connection: &mut PgConnection,
        organisation: OrganisationId,
        wms: WmsId,
        rows: &[Placed<'_>],
    ) -> Result<Self, sqlx::Error> {
        let unknown = rows.iter().filter(|placed| placed.order.is_none());
        let ids: Vec<Uuid> = unknown
            .filter_map(|placed| match placed.row.about {
                About::Id(id) => Some(id.get()),
                About::Number { .. } => None,
            })
            .collect();
        if ids.is_empty() {
            return Ok(Self::default());
        }
        let found = sqlx::query!(
            r#"SELECT was_set_back() AS "is_open!",
                      (SELECT count(*) FROM wms_lost_order WHERE wms_id = $1) AS "count!",
                      ARRAY(SELECT l.expedition_id FROM unnest($2::uuid[]) AS g (id)
                            JOIN wms_lost_order l ON l.wms_id = $1 AND l.expedition_id = ANY (ARRAY[g.id])) AS "kept!",
                      ARRAY(SELECT e.id FROM unnest($2::uuid[]) AS g (id)
                            JOIN expedition e ON e.id = ANY (ARRAY[g.id]) AND e.organisation_id = $3) AS "elsewhere!""#,
            wms.get(),
            &ids,
            organisation.get(),
        )
        .fetch_one(connection)
        .await?;
        Ok(Self {
            is_open: found.is_open,
            room: MOST - found.count,
            kept: found.kept.into_iter().collect(),
            elsewhere: found.elsewhere.into_iter().collect(),
            lost: BTreeMap::new(),
        })
    }

    /// Keeps the report of an order that is not in the wms; refuses it where that is no sign of a set-back.
    pub(super) fn take(&mut self, placed: &Placed<'_>) -> Result<ExpeditionId, Violation> {
        let unknown = || Violation::new("expedition", "unknown_expedition", "must be an order of the wms");
        let row = placed.row;
        let About::Id(id) = row.about else { return Err(unknown()) };
        if placed.order.is_some() || !self.is_open || self.elsewhere.contains(&id.get()) {
            return Err(unknown());
        }
        if !self.kept.contains(&id.get()) {
            if self.room <= 0 {
                let message = format!(
                    "must be an order of the wms: {MOST} unknown ones are kept already, until some are dismissed"
                );
                return Err(Violation::new("expedition", "quota_reached", message));
            }
            self.room -= 1;
            self.kept.insert(id.get());
        }
        let is_short = row.text.len() <= LONGEST;
        let report = if is_short { row.text.clone() } else { row.kept().to_string() };
        let lost = self.lost.entry(id.get()).or_insert(Lost { number: None, report: String::new() });
        *lost = Lost { number: lost.number.max(row.number), report };
        Ok(id)
    }

    /// Writes what was taken.
    pub(super) async fn write(
        &self,
        connection: &mut PgConnection,
        organisation: OrganisationId,
        wms: WmsId,
    ) -> Result<(), sqlx::Error> {
        if self.lost.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = self.lost.keys().copied().collect();
        let numbers: Vec<Option<i32>> = self.lost.values().map(|lost| lost.number).collect();
        let reports: Vec<&str> = self.lost.values().map(|lost| lost.report.as_str()).collect();
        sqlx::query!(
            "INSERT INTO wms_lost_order AS l (id, wms_id, organisation_id, expedition_id, number, report)
             SELECT uuid_v7(), $1, $2, g.id, g.number, g.report::jsonb
             FROM unnest($3::uuid[], $4::int[], $5::text[]) AS g (id, number, report)
             ON CONFLICT (wms_id, expedition_id) DO UPDATE
             SET number = greatest(l.number, excluded.number), report = excluded.report, changed_at = excluded.changed_at",
            wms.get(),
            organisation.get(),
            &ids,
            &numbers as &[Option<i32>],
            &reports as &[&str],
        )
        .execute(connection)
        .await
        .map(|_| ())
    }
}

/// Dismisses an order that only the warehouse has (`DELETE /api/lost-order/{id}`): 204. A later report of it is kept again.
///
/// # Errors
/// `not_found`, also where it is not in the scope; those of the database.
pub async fn dismiss(services: &Services, context: &Context, id: Uuid) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "wms.dismiss_lost_order",
        "wms",
        None,
        "WITH made AS (
             DELETE FROM wms_lost_order WHERE id = $9 AND in_scope($10, organisation_id) RETURNING *
         ), changed AS (
             SELECT wms_id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('expedition', jsonb_build_array(expedition_id, NULL),
                        'number', jsonb_build_array(number, NULL),
                        'createdAt', jsonb_build_array(created_at, NULL),
                        'changedAt', jsonb_build_array(changed_at, NULL)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        id,
        context.scope().organisations() as Option<&[OrganisationId]>,
    )
    .await?;
    if change.note(recorded) == 0 {
        return Err(Problem::not_found("lost order"));
    }
    change.answer(context.claim, Answer::done()).await
}
