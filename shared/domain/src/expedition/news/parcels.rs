//! Parcels, and where orders can be tracked.

use std::collections::HashMap;

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::fold::Fold;
use crate::expedition::report::Parcel;

/// Parcels that are new, or known in another way since.
pub(super) fn new_parcels<'f>(fold: &'f Fold<'_>) -> impl Iterator<Item = &'f Parcel> {
    fold.known.parcels.iter().filter(|parcel| !fold.had.parcels.contains(parcel))
}

pub(super) async fn write(connection: &mut PgConnection, folds: &[Fold<'_>]) -> Result<(), sqlx::Error> {
    let parcels: Vec<(Uuid, &Parcel)> =
        folds.iter().flat_map(|fold| new_parcels(fold).map(|parcel| (fold.order.id.get(), parcel))).collect();
    if parcels.is_empty() {
        return Ok(());
    }
    let orders: Vec<Uuid> = parcels.iter().map(|(order, _)| *order).collect();
    let numbers: Vec<&str> = parcels.iter().map(|(_, parcel)| parcel.number.as_str()).collect();
    let column = |of: fn(&Parcel) -> Option<&str>| -> Vec<Option<&str>> {
        parcels.iter().map(|(_, parcel)| of(parcel)).collect()
    };
    sqlx::query!(
        "INSERT INTO expedition_parcel (id, expedition_id, ext_package_number, ext_package_tracking_number,
                                        ext_carrier_tracking_number, tracking_url, changed_at)
         SELECT uuid_v7(), g.*, clock_timestamp() FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[]) AS g
         ON CONFLICT (expedition_id, ext_package_number) DO UPDATE
         SET ext_package_tracking_number = excluded.ext_package_tracking_number,
             ext_carrier_tracking_number = excluded.ext_carrier_tracking_number,
             tracking_url = excluded.tracking_url, changed_at = excluded.changed_at",
        &orders,
        &numbers as &[&str],
        &column(|parcel| parcel.package_tracking_number.as_deref()) as &[Option<&str>],
        &column(|parcel| parcel.carrier_tracking_number.as_deref()) as &[Option<&str>],
        &column(|parcel| parcel.tracking_url.as_deref()) as &[Option<&str>],
    )
    .execute(connection)
    .await
    .map(|_| ())
}

/// Writes where orders can be tracked, where parcels say it.
pub(super) async fn write_tracking(
    connection: &mut PgConnection,
    folds: &[Fold<'_>],
) -> Result<(), sqlx::Error> {
    let is_new = |fold: &&Fold<'_>| fold.had.tracking != fold.known.tracking;
    let tracked: Vec<&Fold<'_>> = folds.iter().filter(is_new).collect();
    if tracked.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = tracked.iter().map(|fold| fold.order.id.get()).collect();
    let numbers: Vec<_> = tracked.iter().map(|fold| fold.known.tracking.number.as_deref()).collect();
    let urls: Vec<_> = tracked.iter().map(|fold| fold.known.tracking.url.as_deref()).collect();
    sqlx::query!(
        "UPDATE expedition_detail d SET tracking_number = g.number, tracking_url = g.url
         FROM unnest($1::uuid[], $2::text[], $3::text[]) AS g (id, number, url) WHERE d.id = ANY (ARRAY[g.id])",
        &ids,
        &numbers as &[Option<&str>],
        &urls as &[Option<&str>],
    )
    .execute(connection)
    .await
    .map(|_| ())
}

/// What an event says of parcels: all that the order has, as its record shows them; of orders whose parcels were reported.
pub(super) async fn tracking(
    connection: &mut PgConnection,
    folds: &[Fold<'_>],
) -> Result<HashMap<Uuid, Vec<(&'static str, Value)>>, sqlx::Error> {
    let is_told = |fold: &&Fold<'_>| new_parcels(fold).next().is_some();
    let ids: Vec<Uuid> = folds.iter().filter(is_told).map(|fold| fold.order.id.get()).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let orders = sqlx::query!(
        r#"SELECT d.id, d.tracking_number, d.tracking_url,
                  (SELECT jsonb_agg(jsonb_build_object('extPackageNumber', p.ext_package_number,
                              'extPackageTrackingNumber', p.ext_package_tracking_number,
                              'extCarrierTrackingNumber', p.ext_carrier_tracking_number, 'trackingUrl', p.tracking_url)
                          ORDER BY p.created_at, p.ext_package_number)
                   FROM expedition_parcel p WHERE p.expedition_id = d.id) AS "parcels!"
           FROM unnest($1::uuid[]) AS g (id) JOIN expedition_detail d ON d.id = ANY (ARRAY[g.id])"#,
        &ids,
    )
    .fetch_all(connection)
    .await?;
    let fields = orders.into_iter().map(|order| {
        let fields = vec![
            ("trackingNumber", json!(order.tracking_number)),
            ("trackingUrl", json!(order.tracking_url)),
            ("parcels", order.parcels),
        ];
        (order.id, fields)
    });
    Ok(fields.collect())
}
