//! Rows of different orders, all or none: what is planned for each of them, and how it is written.

use std::collections::{HashMap, HashSet};

use chrono::Duration;
use sqlx::PgConnection;
use uuid::Uuid;

use super::row::{Asked, Row};
use super::{Applied, Import, Known, Placed, touched};
use crate::expedition::body::Body;
use crate::expedition::choice::choose;
use crate::expedition::create::{self, New};
use crate::expedition::decision::{self, Command};
use crate::expedition::edit::{self, Edited, Stored};
use crate::expedition::order::Order;
use crate::expedition::references::{Draft, Resolved, resolve};
use crate::expedition::stocks::{self, By};
use crate::expedition::tally;
use crate::expedition::write::{Transition, write};
use crate::list::fields::expedition::ExpeditionStatus as Status;
use longshore_kernel::access::Scope;
use longshore_kernel::ids::{ExpeditionId, StockId};
use longshore_kernel::problem::{ALREADY_TAKEN, QUOTA_REACHED, Violation, with_found};
use longshore_kernel::quota::Kind;
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::Overtaken;

/// Rows of different orders.
pub(super) struct Group<'g> {
    pub(super) import: Import<'g>,
    pub(super) services: &'g Services,
    pub(super) is_whole: bool,
    pub(super) scope: &'g Scope,
    pub(super) known: &'g HashMap<String, Known>,
    pub(super) rows: &'g [Placed<'g>],
}

/// What is done with a row, before stocks are locked.
enum Plan {
    Unchanged,
    Refused(Vec<Violation>),
    /// Creates the order, which is the next of the new ones.
    Create,
    /// Changes the order, which is the next of the edited ones; it is sent again if it was incorrect.
    Edit,
    /// Cancels the order, which is the next of those that are known.
    Cancel,
}

impl Group<'_> {
    pub(super) async fn apply(&self, tx: &mut PgConnection) -> Result<Applied, sqlx::Error> {
        let stored = edit::lock(tx, self.scope, &touched(self.rows, self.known)).await?;
        let mut foreseen: HashSet<StockId> =
            stored.iter().flat_map(|stored| &stored.order.items).filter_map(|item| item.stock).collect();
        foreseen.extend(self.rows.iter().flat_map(|placed| placed.stocks));
        let canceled = stored.iter().filter(|stored| stored.order.state.status == Status::Canceled);
        let kept = edit::kept(tx, &canceled.map(|stored| stored.order.id).collect::<Vec<_>>()).await?;
        let mut by_number: HashMap<String, Stored> =
            stored.into_iter().map(|stored| (stored.order.order_number.clone(), stored)).collect();
        let (mut plans, mut drafts, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for row in self.rows() {
            if row.is_same(self.known) {
                plans.push(Plan::Unchanged);
                continue;
            }
            let stored = by_number.remove(&row.order_number);
            plans.push(match (&row.asked, stored) {
                (Asked::Cancel, None) => {
                    let message = "must be the number of an order of the e-shop";
                    Plan::Refused(vec![Violation::new("orderNumber", "not_found", message)])
                }
                (Asked::Cancel, Some(stored)) => {
                    known.push((stored.order, None));
                    Plan::Cancel
                }
                (Asked::Take { digest, .. }, Some(stored)) if stored.digest.as_deref() == Some(digest) => {
                    Plan::Unchanged
                }
                (Asked::Take { .. }, Some(stored)) if !stored.order.state.status.is_editable() => {
                    let instead = decision::not_editable(&stored.order, kept.contains(&stored.order.id));
                    let violation = Violation::new("", "wrong_status", format!("the order {instead}"));
                    Plan::Refused(with_found(row.violations().to_vec(), vec![violation]))
                }
                (Asked::Take { body, .. }, Some(stored)) => {
                    let mut detail = stored.detail.clone();
                    detail.take(body.fields.clone());
                    let id = stored.order.id;
                    let eshop = self.import.eshop;
                    let given = stored.news(body);
                    let choice = stored.order.shipper.choice.filter(|_| !body.names_carrier());
                    drafts.push(Draft { id, eshop, scope: self.scope, detail, given, choice, is_new: false });
                    known.push((stored.order.clone(), Some(stored)));
                    Plan::Edit
                }
                (Asked::Take { body, .. }, None) => {
                    let mut draft = create::draft(ExpeditionId::new(), self.import.eshop, self.scope, body);
                    let missing = missing(body);
                    if !missing.is_empty() {
                        let given = draft.given.to_mut();
                        given.violations = with_found(std::mem::take(&mut given.violations), missing);
                    }
                    drafts.push(draft);
                    Plan::Create
                }
            });
        }
        let resolved = resolve(tx, drafts).await?;
        if resolved.iter().any(|order| order.as_ref().is_err_and(|found| is_number_taken(found))) {
            // it would be locked out of order now
            return Err(Overtaken("an order of the chunk was created since its number was looked up").into());
        }
        let mut resolved = resolved.into_iter();
        let mut stored = known.into_iter();
        let mut work = Work::default();
        let mut applied = Applied::default();
        for (position, (plan, placed)) in plans.into_iter().zip(self.rows).enumerate() {
            match plan {
                Plan::Unchanged => {}
                Plan::Refused(violations) => applied.refused.push((position, violations)),
                Plan::Cancel => work.cancels.extend(stored.next().map(|(order, _)| (position, order))),
                Plan::Create | Plan::Edit => {
                    let Asked::Take { digest, .. } = &placed.row.asked else { continue };
                    let known = if matches!(plan, Plan::Edit) { stored.next() } else { None };
                    match (resolved.next(), known) {
                        (Some(Err(violations)), _) => applied.refused.push((position, violations)),
                        (Some(Ok(resolved)), Some((_, Some(stored)))) => {
                            let is_incorrect = stored.order.state.status == Status::Incorrect;
                            let sends = is_incorrect && self.sends(placed.row, &resolved);
                            work.edit(edited(stored, resolved, *digest), sends);
                        }
                        (Some(Ok(resolved)), _) => {
                            work.news.push((position, self.create(placed, resolved, *digest)));
                        }
                        (None, _) => return Err(sqlx::Error::Protocol("a row was not resolved".to_owned())),
                    }
                }
            }
        }
        self.keep_to_quota(tx, &mut work, &mut applied).await?;
        applied.changed += work.news.len() + work.edits.len();
        let created = |(_, new): &(usize, New)| {
            let order = &new.resolved.order;
            (order.order_number.clone(), (order.id, new.digest.map(Vec::from)))
        };
        applied.created = work.news.iter().map(created).collect();
        self.write(tx, work, &foreseen, &mut applied).await?;
        Ok(applied)
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().map(|placed| placed.row)
    }

    /// Refuses the new orders for which there is no room, the last ones.
    async fn keep_to_quota(
        &self,
        tx: &mut PgConnection,
        work: &mut Work,
        applied: &mut Applied,
    ) -> Result<(), sqlx::Error> {
        if work.news.is_empty() {
            return Ok(());
        }
        let quotas = &self.services.quotas;
        let room = quotas.room(tx, self.import.organisation, Kind::Expedition, work.news.len()).await?;
        let over = work.news.split_off(room);
        if !over.is_empty() {
            quotas.refused(Kind::Expedition, over.len());
            let refusal = || vec![Violation::new("", QUOTA_REACHED.code, quotas.sentence(Kind::Expedition))];
            applied.refused.extend(over.into_iter().map(|(position, _)| (position, refusal())));
        }
        Ok(())
    }

    /// Whether an order is sent: as its row or the header says, else unless it is edited first.
    fn sends(&self, row: &Row, resolved: &Resolved) -> bool {
        row.sends(self.import.send).unwrap_or(!resolved.edits_before)
    }

    fn create(&self, placed: &Placed<'_>, resolved: Resolved, digest: [u8; 32]) -> New {
        New {
            send: self.sends(placed.row, &resolved),
            resolved,
            user: None,
            digest: Some(digest),
            created_at: Some(self.import.accepted_at + Duration::microseconds(i64::from(placed.index))),
            origin: 0,
        }
    }

    /// Writes what was planned; what can no longer be cancelled is refused.
    async fn write(
        &self,
        tx: &mut PgConnection,
        work: Work,
        foreseen: &HashSet<StockId>,
        applied: &mut Applied,
    ) -> Result<(), sqlx::Error> {
        let mut news: Vec<New> = work.news.into_iter().map(|(_, new)| new).collect();
        let Work { edits, again, cancels, same, .. } = work;
        let origins = [self.import.origin];
        if !edits.is_empty() {
            applied.lanes.extend(edit::write(tx, &origins, &edits).await?);
        }
        note_taken(tx, &same).await?;
        let (raised, mut again): (Vec<bool>, Vec<Order>) = again.into_iter().unzip();
        let sent = news.iter_mut().filter(|new| new.send).map(|new| &mut new.resolved.order);
        choose(tx, sent.chain(&mut again)).await?;
        let sent = news.iter_mut().filter(|new| new.send).map(|new| &mut new.resolved.order);
        // those of new orders were made before the chunk locked anything
        let mut lacking: Vec<&mut Order> = sent.chain(&mut again).collect();
        let by =
            if self.is_whole { By::Itself(&mut *tx) } else { By::AnotherUnderLocks(&self.services.db.main) };
        stocks::make_missing(by, &mut lacking).await?;
        let sent = news.iter().filter(|new| new.send).map(|new| &new.resolved.order);
        let cancelled = cancels.iter().map(|(_, order)| order);
        let all: Vec<Order> = sent.chain(&again).chain(cancelled).cloned().collect();
        let mut locked = stocks::lock_foreseen(tx, &all, foreseen).await?;
        let turned = stocks::turned(tx, &locked).await?;
        let sent = news.iter_mut().filter(|new| new.send).map(|new| &mut new.resolved.order);
        sent.chain(&mut again).for_each(|order| turned.judge(order));
        let mut transitions = Vec::new();
        for (position, order) in &cancels {
            let command = Command::Cancel { reason: None };
            match command.decide(order, &mut locked.ledger) {
                Ok(state) => {
                    let (action, remark) = (command.action(), command.remark());
                    transitions.push(Transition {
                        order,
                        state,
                        action,
                        remark,
                        origin: 0,
                        is_raised: false,
                        handover_error: None,
                    });
                }
                Err(problem) => {
                    let violation = Violation::new("", "wrong_status", problem.detail());
                    applied.refused.push((*position, vec![violation]));
                }
            }
        }
        for (order, is_raised) in again.iter().zip(raised) {
            let state = decision::send(order, &mut locked.ledger)?;
            let action = Command::Send { rebook: false }.action();
            transitions.push(Transition {
                order,
                state,
                action,
                remark: None,
                origin: 0,
                is_raised,
                handover_error: None,
            });
        }
        // one that was edited is counted as that
        applied.changed += transitions.iter().filter(|t| t.is_change() && !t.is_raised).count();
        let (_, lanes) = write(tx, &origins, &transitions, &mut locked.ledger).await?;
        applied.lanes.extend(lanes);
        applied.counts += tally::of(&transitions);
        if !news.is_empty() {
            let (lanes, counts) = create::insert_placed(tx, &origins, &news, &mut locked.ledger).await?;
            applied.lanes.extend(lanes);
            applied.counts += counts;
        }
        Ok(())
    }
}

fn is_number_taken(found: &[Violation]) -> bool {
    found.iter().any(|violation| violation.code == ALREADY_TAKEN && violation.property_path == "orderNumber")
}

/// What is to be written of the rows of a group.
#[derive(Default)]
struct Work {
    /// New orders, with the positions of their rows.
    news: Vec<(usize, New)>,
    edits: Vec<Edited>,
    /// Orders that are sent again, with whether an edit raises their version.
    again: Vec<(bool, Order)>,
    /// Orders that are cancelled, with the positions of their rows.
    cancels: Vec<(usize, Order)>,
    /// Orders whose row says in another way what they are already.
    same: Vec<(ExpeditionId, [u8; 32])>,
}

impl Work {
    fn edit(&mut self, mut edited: Edited, sends: bool) {
        let is_change = !edited.changes.is_empty();
        edited.is_sent = sends;
        if sends {
            let order = if is_change { edited.order() } else { edited.stored.order.clone() };
            self.again.push((is_change, order));
        }
        if is_change {
            self.edits.push(edited);
        } else {
            self.same.extend(edited.digest.map(|digest| (edited.stored.order.id, digest)));
        }
    }
}

/// Keeps the digests of rows that changed nothing: they are the ones that were last taken.
async fn note_taken(
    connection: &mut PgConnection,
    taken: &[(ExpeditionId, [u8; 32])],
) -> Result<(), sqlx::Error> {
    if taken.is_empty() {
        return Ok(());
    }
    let (ids, digests): (Vec<Uuid>, Vec<Vec<u8>>) =
        taken.iter().map(|(id, digest)| (id.get(), digest.to_vec())).unzip();
    sqlx::query!(
        "UPDATE expedition_detail d SET digest = g.digest
         FROM unnest($1::uuid[], $2::bytea[]) AS g (id, digest) WHERE d.id = ANY (ARRAY[g.id])",
        &ids,
        &digests,
    )
    .execute(connection)
    .await
    .map(|_| ())
}

/// What a row must say that creates an order.
fn missing(body: &Body) -> Vec<Violation> {
    let absent = [
        (body.fields.value.is_none(), "value"),
        (body.fields.currency.is_none(), "currency"),
        (body.items.is_none(), "items"),
    ];
    let absent = absent.into_iter().filter(|(is_absent, _)| *is_absent);
    absent.map(|(_, field)| Violation::new(field, "required", "is required for a new order")).collect()
}

fn edited(stored: Stored, mut resolved: Resolved, digest: [u8; 32]) -> Edited {
    stored.keep_items(&mut resolved);
    let changes = edit::differences(&stored, &resolved);
    Edited { stored, resolved, changes, digest: Some(digest), is_sent: false, origin: 0 }
}
