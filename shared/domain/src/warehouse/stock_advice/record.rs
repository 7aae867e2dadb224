//! The advice as a change finds it, and what the change does to the stocks.

use sqlx::PgConnection;
use uuid::Uuid;

use super::{ENTITY, EVENT, NAME, location};
use crate::list;
use crate::list::fields::stock_advice::{AdviceStatus, STOCK_ADVICE};
use crate::warehouse::stock::movement::{Kind, Move, Place};
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Recorded;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{AdviceItemId, OrganisationId, StockAdviceId, WmsId};
use longshore_kernel::problem::{CONFLICT, Problem};
use longshore_kernel::record_change;

/// An advice that is locked for a change.
#[derive(Debug)]
pub(super) struct Locked {
    pub(super) id: StockAdviceId,
    pub(super) place: Place,
    pub(super) status: AdviceStatus,
    pub(super) version: i64,
}

/// One item of it.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) id: AdviceItemId,
    pub(super) product: Uuid,
    pub(super) quantity: i32,
    pub(super) received: i32,
}

impl Item {
    /// Pieces that are still to come.
    pub(super) fn left(&self) -> i32 {
        self.quantity.saturating_sub(self.received).max(0)
    }

    /// Nothing more of it is to come.
    pub(super) fn withdrawn(&self) -> Move {
        Move { product: self.product, kind: Kind::Withdrawn, quantity: 0, incoming: -self.left() }
    }
}

/// Locks an advice of the scope.
pub(super) async fn lock(tx: &mut PgConnection, scope: &Scope, id: StockAdviceId) -> Result<Locked, Problem> {
    let found = sqlx::query!(
        r#"SELECT organisation_id, warehouse_id, wms_id, status AS "status: AdviceStatus", version FROM stock_advice
         WHERE in_scope($1, organisation_id) AND id = $2 AND in_wms($3, wms_id)
         FOR NO KEY UPDATE"#,
        scope.organisations() as Option<&[OrganisationId]>,
        id.get(),
        scope.wms() as Option<WmsId>,
    )
    .fetch_optional(tx)
    .await?
    .ok_or_else(|| Problem::not_found(NAME))?;
    let place = Place {
        organisation: found.organisation_id.into(),
        warehouse: found.warehouse_id,
        wms: found.wms_id,
    };
    Ok(Locked { id, place, status: found.status, version: found.version })
}

impl Locked {
    /// Refuses an advice that has ended.
    pub(super) fn must_be_open(&self) -> Result<(), Problem> {
        if self.status.is_open() {
            Ok(())
        } else {
            Err(Problem::new(&CONFLICT, format!("the stock advice has already ended: it is {}", self.status)))
        }
    }

    /// Its items, in their order.
    pub(super) async fn items(&self, tx: &mut PgConnection) -> Result<Vec<Item>, sqlx::Error> {
        sqlx::query_as!(
            Item,
            "SELECT id, product_id AS product, quantity, received FROM stock_advice_item
             WHERE stock_advice_id = $1 ORDER BY position",
            self.id.get(),
        )
        .fetch_all(tx)
        .await
    }

    /// Writes its new status, and what has been received of its items. The event is for a new status alone.
    pub(super) async fn write(
        &self,
        tx: &mut PgConnection,
        origin: &Origin,
        action: &str,
        status: AdviceStatus,
        received: &[Item],
    ) -> Result<Recorded, sqlx::Error> {
        let items: Vec<AdviceItemId> = received.iter().map(|i| i.id).collect();
        let totals: Vec<i32> = received.iter().map(|i| i.received).collect();
        record_change!(
            tx,
            origin,
            action,
            ENTITY,
            Some(EVENT),
            "WITH old AS (
                 SELECT id, status FROM stock_advice WHERE id = $9
             ), counted AS (
                 UPDATE stock_advice_item i SET received = c.received
                 FROM unnest($11::uuid[], $12::int[]) AS c (id, received),
                      stock_advice_item was
                 WHERE i.id = c.id AND was.id = i.id
                 RETURNING i.id, i.position, was.received AS was, i.received
             ), made AS (
                 UPDATE stock_advice a
                 SET status = $10, version = a.version + 1
                 WHERE a.id = $9
                 RETURNING a.*
             ), changed AS (
                 SELECT made.id AS entity, made.version, made.changed_at AS at, made.organisation_id AS organisation,
                        CASE WHEN made.status <> old.status THEN ARRAY(
                            SELECT eshop_id FROM eshop_warehouse WHERE warehouse_id = made.warehouse_id
                            UNION SELECT e.eshop_id FROM stock_advice_item i
                                JOIN product_eshop e ON e.product_id = i.product_id
                                WHERE i.stock_advice_id = made.id) END AS eshops,
                        ARRAY(SELECT e.eshop_id FROM stock_advice_item i JOIN product_eshop e ON e.product_id = i.product_id
                              WHERE i.stock_advice_id = made.id) AS seen_by,
                        (SELECT coalesce(jsonb_object_agg(field, jsonb_build_array(was, becomes)), '{}') FROM (VALUES
                            ('status', to_jsonb(old.status), to_jsonb(made.status)),
                            ('items',
                                (SELECT jsonb_agg(jsonb_build_object('id', id, 'received', was) ORDER BY position)
                                 FROM counted),
                                (SELECT jsonb_agg(jsonb_build_object('id', id, 'received', received) ORDER BY position)
                                 FROM counted))
                         ) AS f (field, was, becomes) WHERE was IS DISTINCT FROM becomes) AS changes,
                        event_data(made.id,
                            jsonb_build_object('organisation', made.organisation_id, 'warehouse', made.warehouse_id,
                                'wms', made.wms_id, 'supplier', made.supplier_id, 'status', made.status,
                                'orderNumber', made.internal_id),
                            '{status}', jsonb_build_object('status', made.status)) AS data
                 FROM made JOIN old USING (id)
             )",
            self.id.get(),
            status.as_str(),
            &items as &[AdviceItemId],
            &totals,
        )
        .await
    }
}

/// The advice as the transaction has made it.
pub(super) async fn shown(
    tx: &mut PgConnection,
    scope: &Scope,
    id: StockAdviceId,
) -> Result<list::Record, Problem> {
    list::find(tx, &STOCK_ADVICE, scope, id).await?.ok_or_else(|| Problem::not_found(NAME))
}

/// The answer with the advice as the transaction has made it.
pub(super) async fn updated(
    tx: &mut PgConnection,
    scope: &Scope,
    id: StockAdviceId,
) -> Result<Answer, Problem> {
    let advice = shown(tx, scope, id).await?;
    Ok(Answer::updated(location(id), advice.version, advice.json))
}
