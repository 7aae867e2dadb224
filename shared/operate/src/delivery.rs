//! Searching the deliveries of all webhooks, in bounded time however many there are.
//!
//! Deliveries are listed by the time at which they were made, which their ids contain. What an index knows (entity, e-shop,
//! organisation, webhook, time) narrows the search down; everything else is looked at delivery by delivery, at most [`WINDOW`] of
//! them. Those that did not succeed are few among many, and as old as their last attempt: they are listed by their end, with the
//! index that each webhook has of them. A page that is cut short by a bound says so, and where the next one begins.

mod count;
mod source;

pub use count::{States, states};

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use longshore_domain::list::criteria::containing;
use longshore_domain::webhook::delivery::DeliveryState;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{DeliveryId, EshopId, OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;
use longshore_kernel::words;

/// Deliveries a page.
pub const PAGE: usize = 50;
/// Ended deliveries that one page looks at.
pub const WINDOW: i64 = 10_000;
/// The same where webhooks are wanted, of all of them together.
const WEBHOOKS_WINDOW: i64 = 5_000;
/// Waiting deliveries that one page looks at: the type and the entity of each are looked up.
pub const WAITING_WINDOW: i64 = 2_000;
/// Webhooks of which one search reads deliveries.
pub const WEBHOOKS: usize = 200;
/// Unsuccessful deliveries of each webhook that one page looks at, if it is not longer itself.
const UNSUCCESSFUL_WINDOW: usize = 100;

/// What is wanted; all of it is required.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// In this state.
    pub state: Option<DeliveryState>,
    /// Waiting for this; nothing: whatever it waits for, if it waits at all.
    pub waits: Option<Waits>,
    /// Of this type of event.
    pub event: Option<String>,
    /// About one of these entities.
    pub entities: Option<Vec<Uuid>>,
    /// Of this e-shop.
    pub eshop: Option<EshopId>,
    /// To a destination that contains this.
    pub destination: Option<String>,
    /// At this moment or later: made, or ended where the list has that order.
    pub since: Option<DateTime<Utc>>,
    /// Before this moment.
    pub until: Option<DateTime<Utc>>,
    /// Behind this cursor.
    pub after: Option<Cursor>,
    /// The oldest first, and not the newest.
    pub oldest: bool,
    /// Deliveries a page; nothing: [`PAGE`].
    pub size: Option<usize>,
}

words! {
    /// What a pending delivery of an active webhook waits for.
    pub enum Waits ("wait of deliveries") {
        /// It is due, and waits for a worker, or for its destination.
        Due = "due",
        /// Its last attempt failed, and its next one is not due.
        Retry = "retry",
    }
}

/// What a list is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The time at which deliveries were made.
    Made,
    /// The time at which they ended.
    Ended,
}

impl Filter {
    /// The order of what is found.
    #[must_use]
    pub fn order(&self) -> Order {
        match self.state {
            // the index of an entity has few of them
            Some(DeliveryState::Exhausted | DeliveryState::Cancelled) if self.entities.is_none() => {
                Order::Ended
            }
            _ => Order::Made,
        }
    }

    /// How many deliveries one page looks at at least; nothing: as many of each webhook.
    #[must_use]
    pub fn window(&self) -> Option<i64> {
        match (self.order(), self.state) {
            (Order::Ended, _) => None,
            (Order::Made, None | Some(DeliveryState::Pending)) => Some(WAITING_WINDOW),
            (Order::Made, Some(_)) if self.destination.is_some() => Some(WEBHOOKS_WINDOW),
            (Order::Made, Some(_)) => Some(WINDOW),
        }
    }
}

/// Where a page ends.
pub type Cursor = longshore_kernel::cursor::Cursor<DeliveryId>;

/// A delivery as a list shows it.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its id.
    pub id: DeliveryId,
    /// Its webhook.
    pub webhook_id: WebhookId,
    /// Where that goes; nothing if it was deleted.
    pub destination: Option<String>,
    /// Its e-shop.
    pub eshop_id: Option<EshopId>,
    /// Name of that.
    pub eshop: Option<String>,
    /// Its state.
    pub state: DeliveryState,
    /// Type of its event.
    pub event: Option<String>,
    /// Entity of its event.
    pub entity: Option<Uuid>,
    /// What people call that: a SKU, or the number of an order.
    pub name: Option<String>,
    /// Calls so far.
    pub attempt_count: i16,
    /// The last call.
    pub last: Option<Value>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it is due, if it waits.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// Whether it is wanted.
    matches: bool,
    /// Whether it is the last one that its source looked at.
    is_edge: bool,
}

impl Line {
    fn cursor(&self, order: Order) -> Cursor {
        let at = match order {
            Order::Made => self.created_at,
            Order::Ended => self.finished_at.unwrap_or(self.created_at),
        };
        Cursor { at, id: self.id }
    }

    /// What the order compares: the id alone says when a delivery was made.
    fn key(&self, order: Order) -> (Option<DateTime<Utc>>, DeliveryId) {
        match order {
            Order::Made => (None, self.id),
            Order::Ended => (self.finished_at, self.id),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The deliveries in their order, as many as a page has.
    pub deliveries: Vec<Line>,
    /// Where the next page begins, if there may be more.
    pub next: Option<Cursor>,
    /// As many were looked at as one search may, and fewer than a page of them matched.
    pub cut_short: bool,
    /// More than [`WEBHOOKS`] webhooks match; those of the others are not in the list.
    pub too_many_webhooks: bool,
}

/// What narrows a search down by an index.
struct Inner<'w> {
    organisations: Option<&'w [OrganisationId]>,
    organisation: Option<OrganisationId>,
    eshop: Option<EshopId>,
    webhooks: Option<Vec<WebhookId>>,
    wanted: &'w Filter,
    /// Deliveries of a source: those of a page, one more, and the last one that was looked at.
    limit: i64,
}

/// Searches.
pub async fn search(db: &Database, scope: &Scope, wanted: &Filter) -> Result<Page, Problem> {
    let eshop = match (scope.eshop(), wanted.eshop) {
        (Some(own), Some(other)) if own != other => return Ok(Page::default()),
        (own, wanted) => own.or(wanted),
    };
    // one organisation is compared: its index then has the order, too
    let (organisations, organisation) = match scope.organisations() {
        Some([one]) => (None, Some(*one)),
        several => (several, None),
    };
    let order = wanted.order();
    let is_narrow = wanted.destination.is_some() || eshop.is_some() || scope.organisations().is_some();
    let webhooks = match order {
        Order::Ended if !is_narrow => Some(unsuccessful_webhooks(db).await?),
        Order::Made if wanted.destination.is_none() => None,
        _ => Some(webhooks(db, scope, eshop, wanted.destination.as_deref()).await?),
    };
    let too_many_webhooks = webhooks.as_ref().is_some_and(|webhooks| webhooks.len() > WEBHOOKS);
    let size = wanted.size.unwrap_or(PAGE);
    let limit = i64::try_from(size + 2).map_err(Problem::internal)?;
    let inner = Inner { organisations, organisation, eshop, webhooks, wanted, limit };
    let found = match (order, wanted.state) {
        (Order::Ended, _) => source::unsuccessful(db, &inner, size).await?,
        (Order::Made, Some(DeliveryState::Pending)) => source::waiting(db, &inner).await?,
        (Order::Made, Some(_)) => source::ended(db, &inner).await?,
        (Order::Made, None) => {
            let (waiting, ended) = tokio::try_join!(source::waiting(db, &inner), source::ended(db, &inner))?;
            waiting.into_iter().chain(ended).collect()
        }
    };
    Ok(Page { too_many_webhooks, ..page_of(found, order, wanted.oldest, size) })
}

/// A page of what the sources have: as far as each of them was looked at.
fn page_of(mut lines: Vec<Line>, order: Order, oldest: bool, size: usize) -> Page {
    lines.sort_by_key(|line| line.key(order));
    if !oldest {
        lines.reverse();
    }
    // behind the first edge in the order, its source may have more
    let edge = lines.iter().position(|line| line.is_edge);
    let next = edge.and_then(|edge| lines.get(edge)).map(|line| line.cursor(order));
    lines.truncate(edge.map_or(lines.len(), |edge| edge + 1));
    lines.retain(|line| line.matches);
    if lines.len() > size {
        lines.truncate(size);
        let next = lines.last().map(|line| line.cursor(order));
        return Page { deliveries: lines, next, ..Page::default() };
    }
    Page { deliveries: lines, next, cut_short: next.is_some(), too_many_webhooks: false }
}

/// The webhooks of an e-shop, or with this in their destination, at most one more than [`WEBHOOKS`].
async fn webhooks(
    db: &Database,
    scope: &Scope,
    eshop: Option<EshopId>,
    destination: Option<&str>,
) -> Result<Vec<WebhookId>, Problem> {
    let pattern = destination.map(containing);
    let found = sqlx::query_scalar!(
        r#"SELECT id AS "id: WebhookId" FROM webhook
           WHERE in_scope($1, organisation_id) AND in_eshop($2, eshop_id) AND ($3::text IS NULL OR destination ILIKE $3)
           ORDER BY id DESC LIMIT $4"#,
        scope.organisations() as Option<&[OrganisationId]>,
        eshop as Option<EshopId>,
        pattern.as_deref(),
        i64::try_from(WEBHOOKS + 1).map_err(Problem::internal)?,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// The webhooks that have unsuccessful deliveries, at most one more than [`WEBHOOKS`]: their index is skipped through.
async fn unsuccessful_webhooks(db: &Database) -> Result<Vec<WebhookId>, Problem> {
    let found = sqlx::query_scalar!(
        r#"WITH RECURSIVE hook AS (
               (SELECT webhook_id AS id FROM delivery_history WHERE state <> 'delivered' ORDER BY webhook_id LIMIT 1)
               UNION ALL
               SELECT (SELECT h.webhook_id FROM delivery_history h
                       WHERE h.state <> 'delivered' AND h.webhook_id > hook.id ORDER BY h.webhook_id LIMIT 1)
               FROM hook WHERE hook.id IS NOT NULL
           )
           SELECT id AS "id!: WebhookId" FROM hook WHERE id IS NOT NULL LIMIT $1"#,
        i64::try_from(WEBHOOKS + 1).map_err(Problem::internal)?,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A delivery of that second.
    fn line(second: u128, matches: bool, is_edge: bool) -> Line {
        Line {
            id: Uuid::from_u128(second).into(),
            webhook_id: WebhookId::nil(),
            destination: None,
            eshop_id: None,
            eshop: None,
            state: DeliveryState::Delivered,
            event: None,
            entity: None,
            name: None,
            attempt_count: 1,
            last: None,
            created_at: DateTime::from_timestamp(i64::try_from(second).unwrap(), 0).unwrap(),
            next_attempt_at: None,
            finished_at: None,
            matches,
            is_edge,
        }
    }

    fn page(sources: [&[Line]; 2], oldest: bool, size: usize) -> (Vec<i64>, Option<i64>, bool) {
        let page = page_of(sources.concat(), Order::Made, oldest, size);
        let seconds = page.deliveries.iter().map(|line| line.created_at.timestamp()).collect();
        (seconds, page.next.map(|cursor| cursor.at.timestamp()), page.cut_short)
    }

    #[test]
    fn a_page_ends_where_the_first_of_its_sources_was_looked_at_no_further() {
        let waiting = [line(9, true, false), line(7, true, false), line(5, false, true)];
        let ended = [line(8, true, false), line(6, true, false), line(4, true, false)];
        assert_eq!(page([&waiting, &ended], false, 9), (vec![9, 8, 7, 6], Some(5), true));
        assert_eq!(page([&waiting, &ended], false, 4), (vec![9, 8, 7, 6], Some(5), true));
        assert_eq!(page([&waiting, &ended], false, 3), (vec![9, 8, 7], Some(7), false));
        assert_eq!(page([&waiting[..2], &ended], false, 9), (vec![9, 8, 7, 6, 4], None, false));
        assert_eq!(page([&waiting[..2], &ended], true, 2), (vec![4, 6], Some(6), false));
        let both_edges = [line(3, true, true)];
        assert_eq!(page([&waiting, &both_edges], false, 9), (vec![9, 7], Some(5), true));
        assert_eq!(page([&waiting, &both_edges], true, 9), (vec![3], Some(3), true));
    }
}
