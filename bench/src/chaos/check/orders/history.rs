//! The history of each order, as its audit records it: what follows from it, and which events it must have left.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::chaos::orders::{Fate, Merchant};
use crate::chaos::report::Check;

/// A record of the audit that an order has.
#[derive(Debug, sqlx::FromRow)]
struct Audited {
    id: Uuid,
    order: Uuid,
    organisation: Uuid,
    /// In microseconds.
    at: i64,
    /// When its transaction was committed: of two that change the same stock, the later lock has the later commit.
    committed: Option<i64>,
    action: String,
    /// It is about the hand-over alone, which is no part of the version.
    is_silent: bool,
    /// The status before and after.
    statuses: Option<Value>,
    /// Whether it was paused, before and after.
    paused: Option<Value>,
}

/// A step of an order.
#[derive(Debug)]
struct Step {
    audit: Uuid,
    action: String,
    /// The status before, null where it was created, and after.
    from: Option<String>,
    to: String,
    is_paused: bool,
    /// The version since.
    version: i64,
    committed: Option<i64>,
}

/// An order as it is.
#[derive(Debug, sqlx::FromRow)]
struct Stored {
    status: String,
    is_paused: bool,
    version: i64,
    number: String,
    organisation: Uuid,
}

/// What was recorded of each order.
pub(super) struct Histories {
    steps: BTreeMap<Uuid, Vec<Step>>,
    /// Versions since a set-back are above it.
    floor: i64,
    /// The last version of each order that was deleted.
    deleted: HashMap<Uuid, i64>,
    stored: HashMap<Uuid, Stored>,
    /// Orders of organisations without webhooks.
    unheard: HashSet<Uuid>,
    /// Statuses that do not follow from the one before.
    torn: Vec<String>,
}

/// The statuses in which an order has its pieces booked.
pub(super) const HOLDING: [&str; 5] =
    ["stock_ok", "awaiting_processing", "take_out", "completion", "waiting_for_cancel"];

fn holds(status: &str) -> bool {
    HOLDING.contains(&status)
}

fn waits(status: &str) -> bool {
    matches!(status, "awaiting_reservation" | "waiting_for_goods")
}

fn is_packed(status: &str) -> bool {
    matches!(
        status,
        "waiting_for_the_carrier"
            | "carrier_picked_up"
            | "ready_to_takeover"
            | "probably_delivered"
            | "delivered"
    )
}

/// Once after a set-back, a version goes on above `version_floor`: it says how many changes came since.
fn jump(steps: &mut [Step], version: i64, floor: i64) {
    let (changes, since) = (steps.last().map_or(0, |last| last.version), version - floor);
    if floor > 0 && (1..changes).contains(&since) {
        let before = changes - since;
        for step in steps.iter_mut().filter(|step| step.version > before) {
            step.version += floor - before;
        }
    }
}

impl Histories {
    pub(super) async fn read(psql: &mut PgConnection) -> anyhow::Result<Self> {
        let audited: Vec<Audited> = sqlx::query_as(
            r#"SELECT id, entity_id AS "order", organisation_id AS organisation, (extract(epoch FROM at) * 1000000)::bigint AS at, action,
                      (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint AS committed,
                      changes -> 'status' AS statuses, changes -> 'reservationPaused' AS paused,
                      NOT EXISTS (SELECT FROM jsonb_object_keys(changes) AS field WHERE field NOT IN (
                          'handover', 'number', 'wmsInternalId', 'cancel', 'contradiction', 'news')) AS is_silent
               FROM audit WHERE entity_type = 'expedition' ORDER BY entity_id, at, id"#,
        )
        .fetch_all(&mut *psql)
        .await?;
        let stored: Vec<(Uuid, String, bool, i64, String, Uuid)> = sqlx::query_as(
            "SELECT e.id, e.status, e.reservation_paused, e.version, d.order_number, e.organisation_id
             FROM expedition e JOIN expedition_detail d USING (id)",
        )
        .fetch_all(&mut *psql)
        .await?;
        let stored = stored.into_iter().map(|(id, status, is_paused, version, number, organisation)| {
            (id, Stored { status, is_paused, version, number, organisation })
        });
        let deleted: Vec<(Uuid, i64)> =
            sqlx::query_as("SELECT entity_id, version FROM tombstone WHERE entity_type = 'expedition'")
                .fetch_all(&mut *psql)
                .await?;
        let listening: HashSet<Uuid> = sqlx::query_scalar("SELECT organisation_id FROM webhook")
            .fetch_all(&mut *psql)
            .await?
            .into_iter()
            .collect();
        let floor: i64 = sqlx::query_scalar("SELECT version_floor()").fetch_one(psql).await?;
        let mut histories = Self {
            steps: BTreeMap::new(),
            deleted: deleted.into_iter().collect(),
            stored: stored.collect(),
            unheard: HashSet::new(),
            floor,
            torn: Vec::new(),
        };
        for order in audited.chunk_by(|one, next| one.order == next.order) {
            histories.walk(order);
            let unheard = order.iter().filter(|record| !listening.contains(&record.organisation));
            histories.unheard.extend(unheard.map(|record| record.order));
        }
        for (order, steps) in &mut histories.steps {
            let stored = histories.stored.get(order).map(|stored| stored.version);
            if let Some(version) = stored.or(histories.deleted.get(order).copied()) {
                jump(steps, version, floor);
            }
        }
        Ok(histories)
    }

    /// Reads the records of an order, in their order.
    fn walk(&mut self, records: &[Audited]) {
        let mut steps: Vec<Step> = Vec::with_capacity(records.len());
        let (mut status, mut is_paused, mut version, mut at) = (None::<String>, false, 0, None);
        for (record, next) in records.iter().zip(records.iter().skip(1).map(Some).chain([None])) {
            let Audited { id, order, action, .. } = record;
            let text = |place: usize| record.statuses.as_ref().and_then(|changed| changed[place].as_str());
            if action == "expedition.delete" || record.is_silent {
                continue;
            }
            let old = text(0).map(str::to_owned);
            if record.statuses.is_some() && old != status {
                self.torn.push(format!("{action} {id} of {order} goes from {old:?}, which is {status:?}"));
            }
            // what was created and sent at once goes through no other status
            let is_sent = action == "expedition.create"
                && next.is_some_and(|next| next.action == "expedition.send" && next.at == record.at + 1);
            if is_sent {
                status = text(1).map(str::to_owned);
                continue;
            }
            let is_created = action == "expedition.create" || steps.is_empty();
            // two records of one transaction have one version
            version += i64::from(at != Some(record.at));
            at = Some(record.at);
            if let Some(paused) = record.paused.as_ref().and_then(|changed| changed[1].as_bool()) {
                is_paused = paused;
            }
            let to = text(1).map(str::to_owned).or_else(|| status.clone()).unwrap_or_default();
            steps.push(Step {
                audit: *id,
                action: action.clone(),
                from: if is_created { None } else { status },
                to: to.clone(),
                is_paused,
                version,
                committed: record.committed,
            });
            status = Some(to);
        }
        if let Some(first) = records.first() {
            self.steps.insert(first.order, steps);
        }
    }

    fn count(&self) -> u64 {
        self.steps.values().map(Vec::len).sum::<usize>() as u64
    }

    /// The record of each order is what its steps made of it, and each step is in its event.
    pub(super) async fn events(&self, psql: &mut PgConnection) -> anyhow::Result<Vec<Check>> {
        let known: HashSet<(String, String)> =
            sqlx::query_as("SELECT from_status, to_status FROM expedition_transition")
                .fetch_all(&mut *psql)
                .await?
                .into_iter()
                .collect();
        let (mut torn, mut gaps) = (self.torn.clone(), Vec::new());
        for (order, steps) in &self.steps {
            for step in steps.iter().filter(|step| step.from.as_ref() != Some(&step.to)) {
                let from = step.from.clone().unwrap_or_else(|| "new".to_owned());
                if !known.contains(&(from.clone(), step.to.clone())) {
                    torn.push(format!("{order} goes from {from} to {}", step.to));
                }
            }
            let Some(last) = steps.last() else { continue };
            match (self.stored.get(order), self.deleted.get(order)) {
                (Some(stored), None) => {
                    if (&stored.status, stored.is_paused) != (&last.to, last.is_paused) {
                        torn.push(format!("{order} is {stored:?}, and its last record says {last:?}"));
                    }
                    if stored.version != last.version {
                        gaps.push(format!(
                            "{order} has version {} after {} changes",
                            stored.version, last.version
                        ));
                    }
                }
                (None, Some(version)) if *version == last.version => {}
                (None, Some(version)) => {
                    gaps.push(format!(
                        "{order} was deleted at version {version} after {} changes",
                        last.version
                    ));
                }
                (stored, deleted) => torn.push(format!("{order} is {stored:?}, deleted: {deleted:?}")),
            }
        }
        let unrecorded = self.stored.keys().filter(|order| !self.steps.contains_key(*order));
        torn.extend(unrecorded.map(|order| format!("{order} has no record")));
        let (mut untold, mut unbooked) = (Vec::new(), Vec::new());
        let events: Vec<(Uuid, Uuid, String, Option<i64>, Value)> = sqlx::query_as(
            "SELECT id, entity_id, type, (data ->> 'version')::bigint, coalesce(data -> 'fields', 'null') FROM event
             WHERE entity_type = 'expedition' ORDER BY entity_id, id",
        )
        .fetch_all(&mut *psql)
        .await?;
        let mut statuses: HashMap<Uuid, (Uuid, Option<i64>, Value)> = HashMap::new();
        let mut bookings: HashMap<(Uuid, Option<i64>), Vec<Value>> = HashMap::new();
        let mut deletions: HashMap<Uuid, Vec<Option<i64>>> = HashMap::new();
        for (id, order, kind, version, fields) in events {
            if kind == "expedition_status_change" {
                statuses.insert(id, (order, version, fields));
            } else if kind == "expedition_booked_change" {
                bookings.entry((order, version)).or_default().push(fields["items"].clone());
            } else if kind == "expedition_deleted" {
                deletions.entry(order).or_default().push(version);
            }
        }
        for (order, steps) in self.steps.iter().filter(|(order, _)| !self.unheard.contains(*order)) {
            for step in steps.iter().filter(|step| step.from.as_ref() != Some(&step.to)) {
                let expected = (order, Some(step.version), step.from.as_deref(), Some(step.to.as_str()));
                let event = statuses.remove(&step.audit);
                let found = event.as_ref().map(|(order, version, fields)| {
                    (order, *version, fields["previousStatus"].as_str(), fields["status"].as_str())
                });
                if found != Some(expected) {
                    untold.push(format!("the event of {expected:?} says {found:?}"));
                }
                let (was, is) = (step.from.as_deref().is_some_and(holds), holds(&step.to));
                if was != is && !is_packed(&step.to) {
                    match bookings.remove(&(*order, Some(step.version))).as_deref() {
                        Some([items]) if says(items, is) => {}
                        other => unbooked.push(format!("{order} to {}: {other:?}", step.to)),
                    }
                }
            }
        }
        for (order, version) in self.deleted.iter().filter(|(order, _)| !self.unheard.contains(*order)) {
            let told = deletions.remove(order).unwrap_or_default();
            // it may have been deleted since Postgres was set back
            if ![version + 1, self.floor.max(*version) + 1].iter().any(|above| told == [Some(*above)]) {
                untold.push(format!("{order} was deleted at version {version}, and its events say {told:?}"));
            }
        }
        untold.extend(
            deletions.keys().map(|order| format!("{order} is there, and an event says that it was deleted")),
        );
        untold.extend(
            statuses.iter().map(|(event, said)| format!("{event} says what did not happen: {said:?}")),
        );
        unbooked.extend(bookings.iter().map(|(order, said)| format!("{order:?} was not booked: {said:?}")));
        let of = self.count();
        Ok(vec![
            Check::new("each transition of an order is possible, and in one audit record", of, torn),
            Check::new("versions of orders have no gap", of, gaps),
            Check::new(
                "each transition of an order, and its deletion, is one event, with the version that it made",
                of,
                untold,
            ),
            Check::new(
                "each booking that was made or given back is one event, with all its items",
                of,
                unbooked,
            ),
        ])
    }

    /// Each order is as its caller was last answered, but for what the allocator did since.
    pub(super) fn sent_last(&self, merchants: &[Merchant]) -> Check {
        let (mut of, mut found) = (0, Vec::new());
        for merchant in merchants {
            let organisation = merchant.tenant.organisation.get();
            let stored = self.stored.iter().filter(|(_, order)| order.organisation == organisation);
            let mut by_number: HashMap<&str, (&Uuid, &Stored)> =
                stored.map(|(id, order)| (order.number.as_str(), (id, order))).collect();
            let book = merchant.book();
            of += (book.orders.len() + book.deleted.len()) as u64;
            for (number, fate) in &book.orders {
                let Some((id, order)) = by_number.remove(number.as_str()) else {
                    found.push(format!("order {number} is missing; the answer was {fate:?}"));
                    continue;
                };
                let is_so = match fate {
                    Fate::OneOf(statuses) => statuses.contains(&order.status.as_str()),
                    Fate::Record { id: answered, status, version } => {
                        id == answered && self.follows(*id, status, *version)
                    }
                };
                if !is_so {
                    found.push(format!("order {number}, {id}, was answered as {fate:?} and is {order:?}"));
                }
            }
            found.extend(
                by_number.keys().map(|number| format!("no caller has an answer about order {number}")),
            );
            let there = book.deleted.iter().filter(|(id, _)| !self.deleted.contains_key(id));
            found.extend(there.map(|(id, number)| format!("order {number}, {id}, was answered as deleted")));
        }
        Check::new("each order is as its caller was last answered, but for its bookings since", of, found)
    }

    /// Whether an order had this status with this version, and only the allocator has changed it since.
    fn follows(&self, order: Uuid, status: &str, version: i64) -> bool {
        let steps = self.steps.get(&order).map(Vec::as_slice).unwrap_or_default();
        let last = steps.iter().rfind(|step| step.version == version);
        let mut since = steps.iter().filter(|step| step.version > version);
        last.is_some_and(|step| step.to == status) && since.all(|step| step.action == "expedition.reserve")
    }

    /// Of orders that want the same number of pieces of the same single stock, none was booked while one waited that
    /// is earlier in turn.
    pub(super) async fn in_turn(&self, psql: &mut PgConnection) -> anyhow::Result<Check> {
        let orders: Vec<(Uuid, String)> = sqlx::query_as(
            "SELECT e.id, e.warehouse_id || ' ' || e.wms_id || ' ' || min(i.product_id::text) || ' ' || sum(i.quantity)
             FROM expedition e JOIN expedition_item i ON i.expedition_id = e.id
             -- what was changed may have wanted something else before
             WHERE NOT EXISTS (SELECT FROM audit a WHERE a.entity_id = e.id AND a.action = 'expedition.update')
             GROUP BY e.id HAVING count(DISTINCT i.product_id) = 1
             ORDER BY e.priority DESC, e.created_at, e.id",
        )
        .fetch_all(psql)
        .await?;
        let mut in_turn: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
        for (order, wish) in orders {
            in_turn.entry(wish).or_default().push(order);
        }
        let (mut of, mut found) = (0, Vec::new());
        for orders in in_turn.values() {
            // from, until, order
            let mut waited: Vec<(i64, i64, Uuid)> = Vec::new();
            for order in orders {
                let steps = self.steps.get(order).map(Vec::as_slice).unwrap_or_default();
                for step in
                    steps.iter().filter(|step| holds(&step.to) && !step.from.as_deref().is_some_and(holds))
                {
                    let Some(booked) = step.committed else { continue };
                    of += 1;
                    let overtaken =
                        waited.iter().filter(|(from, until, _)| *from < booked && booked < *until);
                    found.extend(overtaken.map(|(from, until, earlier)| {
                        format!(
                            "{order} was booked at {booked} while {earlier} waited, from {from} to {until}, which is earlier \
                             in turn: {:?}, {:?}",
                            self.steps.get(order),
                            self.steps.get(earlier)
                        )
                    }));
                }
                waited.extend(waiting(steps).map(|(from, until)| (from, until, *order)));
            }
        }
        Ok(Check::new("of orders that want the same, the earlier in turn was booked first", of, found))
    }
}

/// When an order waited to be served: from a commit until another.
fn waiting(steps: &[Step]) -> impl Iterator<Item = (i64, i64)> {
    let waits_since = |step: &Step| waits(&step.to) && !step.is_paused;
    // the allocator moves it among those that wait; what its caller does lets it wait anew
    let goes_on = move |step: &Step| {
        let moves = step.action == "expedition.reserve" && step.from.as_deref().is_some_and(waits);
        waits_since(step) && moves
    };
    let begins = steps.iter().enumerate().filter(move |(_, step)| waits_since(step) && !goes_on(step));
    begins.filter_map(move |(place, step)| {
        let until = match steps[place + 1..].iter().find(|step| !goes_on(step)) {
            Some(end) => end.committed?,
            None => i64::MAX,
        };
        Some((step.committed?, until))
    })
}

/// Whether the items of an event say that all of them are booked, or none.
fn says(items: &Value, is_booked: bool) -> bool {
    let booked = |item: &Value| if is_booked { item["quantity"].clone() } else { Value::from(0) };
    items.as_array().is_some_and(|items| {
        !items.is_empty()
            && items.iter().all(|item| item["quantity"].is_i64() && item["booked"] == booked(item))
    })
}
