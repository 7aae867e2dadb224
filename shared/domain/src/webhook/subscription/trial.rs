//! Trying criteria and `select` before they are stored (`docs/reference/webhooks.md#trying`): what a webhook would have been told of.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::choice::{Source, of_source};
use super::edit::Trial;
use crate::webhook::event::Event;
use longshore_kernel::access::Scope;
use longshore_kernel::ids::{EshopId, EventId};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Events that a trial looks at.
const LOOKED_AT: i64 = 1_000;

/// Deliveries by which these are found.
const DELIVERIES: i64 = 10_000;

/// Examples of what matches.
const EXAMPLES: i64 = 3;

/// What a trial found.
#[derive(Debug, Serialize)]
pub struct Tried {
    /// Events of these types among the newest that webhooks of the e-shop, or of the organisation, were told of, up to a thousand.
    pub looked: i64,
    /// How many of them meet the criteria.
    pub matched: i64,
    /// Bodies of the newest of these.
    pub examples: Vec<Box<RawValue>>,
}

struct Row {
    looked: i64,
    matched: i64,
    id: Option<EventId>,
    kind: Option<String>,
    entity: Option<Uuid>,
    at: Option<DateTime<Utc>>,
    data: Option<String>,
    eshops: Option<Vec<Uuid>>,
}

impl Row {
    fn example(self, of_organisation: bool, select: Option<&[String]>) -> Option<Box<RawValue>> {
        let mut event = Event {
            id: self.id?,
            kind: self.kind?,
            entity: self.entity?,
            at: self.at?,
            data: self.data?,
            eshops: self.eshops,
            ..Event::default()
        };
        event.narrow(of_organisation, select);
        RawValue::from_string(String::from_utf8(event.body().into()).ok()?).ok()
    }
}

/// What a webhook would have been told of lately (`POST /api/eshop-webhook/try`). Changes nothing.
pub async fn try_out(services: &Services, scope: &Scope, body: Value) -> Result<Tried, Problem> {
    let (trial, Source { organisation, eshop, .. }) = of_source(services, scope, Trial::read(body)).await?;
    let Trial { subscribed, filter, conditions, since } = trial;
    let mut connection = services.db.lists.acquire().await?;
    let matches = filter.compiled(&mut connection, &conditions).await?;
    let rows = sqlx::query_as!(
        Row,
        r#"WITH told AS (
               -- of the e-shop, or of the organisation, each by its index
               (SELECT event_id FROM delivery_history WHERE eshop_id = $1 ORDER BY id DESC LIMIT $2)
               UNION
               (SELECT event_id FROM delivery_history WHERE $1::uuid IS NULL AND organisation_id = $8 ORDER BY id DESC LIMIT $2)
               UNION
               SELECT waiting.event_id FROM webhook w
               CROSS JOIN LATERAL (
                   SELECT event_id FROM delivery WHERE webhook_id = w.id ORDER BY next_attempt_at DESC, id DESC
                   -- each has its share of what is looked at
                   LIMIT (SELECT least($3, greatest($2 / greatest(count(*), 1), 1)) FROM webhook
                          WHERE organisation_id = $8 AND in_eshop($1, eshop_id))
               ) waiting
               WHERE w.organisation_id = $8 AND in_eshop($1, w.eshop_id)
           ), picked AS MATERIALIZED (
               SELECT id, type, data, eshops FROM event
               WHERE id = ANY (ARRAY(SELECT event_id FROM told)) AND type = ANY ($5) AND at >= $6
                 -- no test, nor what every webhook is sent
                 AND entity_type <> 'webhook' AND type <> 'restored'
                 AND ($9::uuid IS NULL OR seen_by IS NULL OR $9 = ANY (seen_by))
               ORDER BY id DESC LIMIT $3
           ), looked AS MATERIALIZED (
               SELECT id, $4::text IS NULL OR coalesce(jsonb_path_match(data, $4::text::jsonpath, jsonb_build_object('type', type, 'eshop', nullif(eshops, '{}')), true), false) AS is_met
               FROM picked
           )
           SELECT (SELECT count(*) FROM looked) AS "looked!", (SELECT count(*) FROM looked WHERE is_met) AS "matched!",
                  e.id AS "id?: EventId", e.type AS "kind?", e.entity_id AS "entity?", e.at AS "at?", e.data::text AS "data?", e.eshops AS "eshops?"
           FROM (SELECT) AS one LEFT JOIN event e
                ON e.id = ANY (ARRAY(SELECT id FROM looked WHERE is_met ORDER BY id DESC LIMIT $7))
           ORDER BY e.id DESC"#,
        eshop as Option<EshopId>,
        DELIVERIES,
        LOOKED_AT,
        matches,
        &subscribed.events,
        since,
        EXAMPLES,
        organisation.get(),
        scope.eshop() as Option<EshopId>,
    )
    .fetch_all(&mut *connection)
    .await?;
    let (looked, matched) = rows.first().map_or((0, 0), |row| (row.looked, row.matched));
    let examples =
        rows.into_iter().filter_map(|row| row.example(eshop.is_none(), filter.select.as_deref())).collect();
    Ok(Tried { looked, matched, examples })
}
