//! Finding things by what an operator has at hand: a SKU, a name, an order number, the host of a destination, or any id. The console,
//! `POST /api/find` and `longshore find` all ask here (`docs/reference/lists.md#find`).
//!
//! Each kind of thing is a query of its own. The scope of the caller comes first and the limit after it, so what others have
//! never displaces what the caller may see. An index leads to every hit in a table that grows; only what operators set up is
//! read through, by its names and addresses: e-shops, organisations, webhooks, wms, carrier preferences, access tokens, accounts.

/// The hits of a statement, whose first parameters are the scope of the caller: organisations and e-shop.
macro_rules! hits {
    ($db:expr, $wanted:expr, $statement:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query_as!(
            Found,
            $statement,
            $wanted.organisations as Option<&[OrganisationId]>,
            $wanted.eshop as Option<EshopId>
            $(, $parameter)*
        )
        .fetch_all(&$db.lists)
        .await
        .map(as_hits)
        .map_err(Problem::from)
    };
}

mod set_up;

use longshore_domain::account::token::is_token;
use longshore_domain::list::criteria::containing;
use longshore_kernel::access::{Permission, Role, Scope};
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, ExpeditionId, OrganisationId, parse_id};
use longshore_kernel::input::{Reader, Rule, object, text};
use longshore_kernel::problem::Problem;
use longshore_kernel::words;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::order;

/// Hits of a kind that are shown; one more says that there are more.
pub const SHOWN: usize = 20;

/// Deliveries of a webhook among which those of an event are looked for: the next ones.
const WAITING: i64 = 1_000;
/// Events of a trace whose request is read: a job of it may cause any number.
const TRACED: i64 = 1_000;

/// Characters of a text that is looked for.
const TEXT: usize = 200;

words! {
    /// A kind of thing that can be found.
    pub enum Kind ("kind of hit") {
        /// An e-shop.
        Eshop = "eshop",
        /// An organisation.
        Organisation = "organisation",
        /// A product.
        Product = "product",
        /// An order.
        Order = "order",
        /// A webhook.
        Webhook = "webhook",
        /// A job.
        Job = "job",
        /// A delivery.
        Delivery = "delivery",
        /// A wms.
        Wms = "wms",
        /// A carrier preference.
        Preference = "preference",
        /// An access token.
        Token = "token",
        /// An admin, or a business user.
        Account = "account",
        /// What the audit knows of a request.
        Request = "request",
        /// What the audit knows of a thing without a page of its own.
        Entity = "entity",
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its id; that of its newest audit record where a [`Kind::Request`] was found.
    pub id: Uuid,
    /// What people call it.
    pub name: String,
    /// Where it belongs.
    pub of: Option<String>,
    /// The organisation whose list shows it, where a [`Kind::Preference`] or a [`Kind::Token`] was found; none: it is of the service.
    pub listed_with: Option<Uuid>,
}

/// A hit, as most statements have it.
#[derive(Debug)]
struct Found {
    id: Uuid,
    name: String,
    of: Option<String>,
}

fn as_hits(found: Vec<Found>) -> Vec<Hit> {
    let hit = |Found { id, name, of }| Hit { id, name, of, listed_with: None };
    found.into_iter().map(hit).collect()
}

/// What was found of a kind, at most one more than [`SHOWN`].
pub type Group = (Kind, Vec<Hit>);

/// What is looked for.
struct Wanted<'w> {
    text: &'w str,
    /// The text as an id.
    id: Option<Uuid>,
    /// The trace in it.
    trace: Option<String>,
    organisations: Option<&'w [OrganisationId]>,
    eshop: Option<EshopId>,
    limit: i64,
}

/// The body of a search: its text.
pub fn body() -> impl Rule<Out = String> {
    object(|body| body.required("text", text(1..=TEXT)))
}

/// `POST /api/find`: the hits, kind by kind, and the kinds that have more.
pub async fn list(db: &Database, role: Role, scope: &Scope, body: Value) -> Result<String, Problem> {
    let text = Reader::read(body, self::body())?;
    let groups = find(db, role, scope, &text).await?;
    let more: Vec<Kind> =
        groups.iter().filter(|(_, hits)| hits.len() > SHOWN).map(|(kind, _)| *kind).collect();
    let shown = |(kind, hits): &Group| -> Vec<Value> {
        let fields = |hit: &Hit| json!({"kind": kind, "id": hit.id, "name": hit.name, "of": hit.of});
        hits.iter().take(SHOWN).map(fields).collect()
    };
    let results: Vec<Value> = groups.iter().flat_map(shown).collect();
    Ok(json!({"results": results, "more": more}).to_string())
}

/// Looks for a text among everything that a caller with this role and scope may read.
pub async fn find(db: &Database, role: Role, scope: &Scope, text: &str) -> Result<Vec<Group>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let wanted = Wanted {
        text,
        id: parse_id(text),
        trace: trace_in(text),
        organisations: scope.organisations(),
        eshop: scope.eshop(),
        limit: i64::try_from(SHOWN + 1).map_err(Problem::internal)?,
    };
    if is_token(text) {
        // nothing else is compared with a secret
        let may = Permission::ManageTokens.roles().contains(&role);
        let tokens = if may { set_up::tokens(db, &wanted).await? } else { Vec::new() };
        return Ok(Some((Kind::Token, tokens)).filter(|(_, hits)| !hits.is_empty()).into_iter().collect());
    }
    let [webhooks, jobs, audit] = [Permission::ReadWebhooks, Permission::ReadJobs, Permission::ReadAudit]
        .map(|may| may.roles().contains(&role));
    let found = tokio::try_join!(
        eshops(db, &wanted),
        organisations(db, &wanted),
        products(db, &wanted),
        orders(db, scope, &wanted),
        async { if webhooks { self::webhooks(db, &wanted).await } else { Ok(Vec::new()) } },
        async { if jobs { self::jobs(db, &wanted).await } else { Ok(Vec::new()) } },
        async { if webhooks { deliveries(db, &wanted).await } else { Ok(Vec::new()) } },
        async { if audit { requests(db, &wanted).await } else { Ok(Vec::new()) } },
        set_up::all(db, role, &wanted),
    )?;
    let mut groups = vec![
        (Kind::Eshop, found.0),
        (Kind::Organisation, found.1),
        (Kind::Product, found.2),
        (Kind::Order, found.3),
        (Kind::Webhook, found.4),
        (Kind::Job, found.5),
        (Kind::Delivery, found.6),
        (Kind::Request, found.7),
    ];
    groups.extend(found.8);
    groups.retain(|(_, hits)| !hits.is_empty());
    if groups.is_empty() && audit {
        let entities = entities(db, &wanted).await?;
        groups.extend(Some((Kind::Entity, entities)).filter(|(_, hits)| !hits.is_empty()));
    }
    Ok(groups)
}

/// The id of a trace: 32 hexadecimal digits, alone or within a `traceparent`.
fn trace_in(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let id = text.strip_prefix("00-").and_then(|rest| rest.split('-').next()).unwrap_or(&text);
    let is_trace = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_trace.then(|| id.to_owned())
}

async fn eshops(db: &Database, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Problem> {
    hits!(
        db,
        wanted,
        r#"SELECT s.id, s.name, o.name AS "of?" FROM eshop s JOIN organisation o ON o.id = s.organisation_id
           WHERE in_scope($1, s.organisation_id) AND in_eshop($2, s.id)
             AND CASE WHEN $3::uuid IS NOT NULL THEN s.id = $3 ELSE s.name ILIKE $4 END
           ORDER BY lower(s.name) <> lower($5), s.name, s.id LIMIT $6"#,
        wanted.id,
        containing(wanted.text),
        wanted.text,
        wanted.limit,
    )
}

async fn organisations(db: &Database, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Problem> {
    let found = sqlx::query_as!(
        Found,
        r#"SELECT o.id, o.name, o.code AS "of?" FROM organisation o
           WHERE in_scope($1, o.id) AND CASE WHEN $2::uuid IS NOT NULL THEN o.id = $2 ELSE o.name ILIKE $3 OR o.code = $4 END
           ORDER BY lower(o.name) <> lower($4), o.name, o.id LIMIT $5"#,
        wanted.organisations as Option<&[OrganisationId]>,
        wanted.id,
        containing(wanted.text),
        wanted.text,
        wanted.limit,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(as_hits(found))
}

/// By the id of a product or of its stock, by SKU, and by the beginning of the name. In each organisation an index has the SKU,
/// and one the names, in their order.
async fn products(db: &Database, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Problem> {
    // an SKU may look like an id
    let of_id = if wanted.id.is_some() { product_of_id(db, wanted).await? } else { Vec::new() };
    if !of_id.is_empty() {
        return Ok(of_id);
    }
    let skus = order::search::spellings(wanted.text);
    hits!(
        db,
        wanted,
        r#"SELECT p.id AS "id!", p.product_sku || ' · ' || p.name AS "name!", o.name AS "of?"
           FROM organisation o CROSS JOIN LATERAL (
               (SELECT id, product_sku, name, 0 AS place FROM product
                WHERE organisation_id = o.id AND product_sku = ANY ($3)
                  AND ($2::uuid IS NULL OR EXISTS (SELECT FROM product_eshop e WHERE e.product_id = product.id AND e.eshop_id = $2)))
               UNION ALL
               (SELECT id, product_sku, name, 1 FROM product
                WHERE organisation_id = o.id AND lower(name) ~>=~ lower($4) AND lower(name) ~<~ (lower($4) || chr(1114111))
                  AND product_sku <> ALL ($3)
                  AND ($2::uuid IS NULL OR EXISTS (SELECT FROM product_eshop e WHERE e.product_id = product.id AND e.eshop_id = $2))
                ORDER BY lower(name) USING ~<~ LIMIT $5)
           ) AS p
           WHERE in_scope($1, o.id)
           ORDER BY p.place, p.name, p.id LIMIT $5"#,
        &skus,
        wanted.text,
        wanted.limit,
    )
}

async fn product_of_id(db: &Database, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Problem> {
    hits!(
        db,
        wanted,
        r#"SELECT p.id, p.product_sku || ' · ' || p.name AS "name!", o.name AS "of?"
           FROM (SELECT $3::uuid AS id UNION ALL SELECT product_id FROM product_stock WHERE id = $3) AS named
           JOIN product p ON p.id = ANY (ARRAY[named.id])
           JOIN organisation o ON o.id = p.organisation_id
           WHERE in_scope($1, p.organisation_id)
             AND ($2::uuid IS NULL OR EXISTS (SELECT FROM product_eshop e WHERE e.product_id = p.id AND e.eshop_id = $2))"#,
        wanted.id,
    )
}

/// By id, by number in either case, by the e-shop's own id, and by a tracking number.
async fn orders(db: &Database, scope: &Scope, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Problem> {
    let mut ids = order::search::numbered(db, scope, wanted.text).await?;
    ids.extend(wanted.id.map(ExpeditionId::from));
    hits!(
        db,
        wanted,
        r#"SELECT e.id AS "id!", d.order_number AS "name!", s.name AS "of?"
           FROM unnest($3::uuid[]) AS named (id)
           JOIN expedition e ON e.id = ANY (ARRAY[named.id])
           JOIN expedition_detail d ON d.id = ANY (ARRAY[named.id])
           JOIN eshop s ON s.id = e.eshop_id
           WHERE in_scope($1, e.organisation_id) AND in_eshop($2, e.eshop_id)
           ORDER BY e.created_at DESC, e.id DESC LIMIT $4"#,
        &ids as &[ExpeditionId],
        wanted.limit,
    )
}

/// By id, and by what the destination contains: its host, say.
async fn webhooks(db: &Database, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Problem> {
    hits!(
        db,
        wanted,
        r#"SELECT w.id, w.destination AS name, s.name || ' · ' || coalesce(w.event, array_to_string(w.events, ', ')) AS "of?" FROM webhook w JOIN webhook_source s ON s.id = w.source_id
           WHERE in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id)
             AND CASE WHEN $3::uuid IS NOT NULL THEN w.id = $3 ELSE w.destination ILIKE $4 END
           ORDER BY w.id DESC LIMIT $5"#,
        wanted.id,
        containing(wanted.text),
        wanted.limit,
    )
}

/// By id, by the request that asked for it, and by its trace.
async fn jobs(db: &Database, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Problem> {
    hits!(
        db,
        wanted,
        r#"SELECT j.id AS "id!", j.kind || ', ' || j.state AS "name!",
                  (SELECT name FROM eshop s WHERE s.id = j.eshop_id) AS of
           FROM (SELECT $3::uuid AS id
                 UNION SELECT id FROM job WHERE request_id = $4
                 UNION SELECT id FROM job WHERE substr(traceparent, 4, 32) = $5 AND traceparent IS NOT NULL) AS named
           JOIN job j ON j.id = ANY (ARRAY[named.id])
           WHERE in_scope($1, j.organisation_id, j.organisations) AND in_eshop($2, j.eshop_id)
           ORDER BY j.created_at DESC, j.id DESC LIMIT $6"#,
        wanted.id,
        wanted.text,
        wanted.trace.as_deref(),
        wanted.limit,
    )
}

/// By id, and by the id of the event, which receivers know as `webhook-id`: by the index of entities where they have ended,
/// and among the next ones of each webhook of the organisation where they wait.
async fn deliveries(db: &Database, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Problem> {
    let Some(id) = wanted.id else { return Ok(Vec::new()) };
    hits!(
        db,
        wanted,
        r#"WITH about AS MATERIALIZED (
               SELECT id, entity_id, organisation_id, type FROM event WHERE id = $3 AND in_scope($1, organisation_id)
           ), found AS (
               SELECT h.id, h.webhook_id, h.eshop_id, h.organisation_id, h.event_type AS type, h.state
               FROM delivery_history h WHERE h.id = $3
               UNION ALL
               SELECT d.id, d.webhook_id, d.eshop_id, w.organisation_id, NULL, 'pending'
               FROM delivery d JOIN webhook w ON w.id = d.webhook_id WHERE d.id = $3
               UNION ALL
               SELECT h.id, h.webhook_id, h.eshop_id, h.organisation_id, h.event_type, h.state
               FROM about a JOIN delivery_history h ON h.entity_id = a.entity_id AND h.event_id = a.id
               UNION ALL
               SELECT d.id, d.webhook_id, d.eshop_id, w.organisation_id, a.type, 'pending'
               -- a test is sent whatever its webhook subscribes to
               FROM about a JOIN webhook w ON w.organisation_id = a.organisation_id
                   AND (a.type = ANY (w.events) OR w.id = a.entity_id)
               CROSS JOIN LATERAL (
                   SELECT * FROM delivery d WHERE d.webhook_id = ANY (ARRAY[w.id])
                   ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT $5
               ) AS d WHERE d.event_id = a.id
           )
           SELECT f.id AS "id!", concat_ws(', ', f.type, f.state) AS "name!", w.destination AS "of?"
           FROM found f LEFT JOIN webhook w ON w.id = f.webhook_id
           WHERE in_scope($1, f.organisation_id) AND in_eshop($2, f.eshop_id)
           ORDER BY f.id DESC LIMIT $4"#,
        id,
        wanted.limit,
        WAITING,
    )
}

/// The request with this id, or of this trace, if it changed something itself: one hit, with its newest record.
async fn requests(db: &Database, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Problem> {
    let found = sqlx::query_as!(
        Found,
        r#"SELECT a.id AS "id!", a.request_id AS "name!", a.action || ' by ' || a.actor_name AS "of?"
           FROM (SELECT $2::text AS request
                 UNION
                 (SELECT request_id FROM event
                  WHERE substr(traceparent, 4, 32) = $3 AND traceparent IS NOT NULL AND in_scope($1, organisation_id)
                  LIMIT $5)) AS named
           CROSS JOIN LATERAL (
               SELECT id, request_id, action, actor_name FROM audit
               WHERE request_id = named.request AND job_id IS NULL AND in_scope($1, organisation_id) ORDER BY id DESC LIMIT 1
           ) AS a
           ORDER BY a.id DESC LIMIT $4"#,
        wanted.organisations as Option<&[OrganisationId]>,
        wanted.text,
        wanted.trace.as_deref(),
        wanted.limit,
        TRACED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(as_hits(found))
}

/// A thing without a page of its own, by its id or by that of a record, with what was done to it last.
async fn entities(db: &Database, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Problem> {
    let Some(id) = wanted.id else { return Ok(Vec::new()) };
    let found = sqlx::query_as!(
        Found,
        r#"SELECT a.entity_id AS "id!", replace(a.entity_type, '_', ' ') AS "name!", a.action || ' by ' || a.actor_name AS "of?"
           FROM ((SELECT * FROM audit WHERE entity_id = $2 AND in_scope($1, organisation_id) ORDER BY id DESC LIMIT 1)
                 UNION ALL (SELECT * FROM audit WHERE id = $2 AND in_scope($1, organisation_id))) AS a
           LIMIT 1"#,
        wanted.organisations as Option<&[OrganisationId]>,
        id,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(as_hits(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_found_alone_and_in_its_context() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace_in(id).as_deref(), Some(id));
        assert_eq!(trace_in(&id.to_uppercase()).as_deref(), Some(id));
        assert_eq!(trace_in(&format!("00-{id}-00f067aa0ba902b7-01")).as_deref(), Some(id));
        for other in ["", "MUG-1", &id[1..], "0193c0de-0000-7000-8000-000000000001", &format!("{id}0")] {
            assert_eq!(trace_in(other), None, "{other}");
        }
    }
}
