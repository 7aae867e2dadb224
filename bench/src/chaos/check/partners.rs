//! Invariants of partners: each sync ended, the last one brought in the whole catalogue, partners have the
//! available quantities, and limits were respected.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use longshore_domain::partner::baselinker::window::DOCUMENTED;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Course, Emptied};
use crate::chaos::partners::{Limited, PRODUCTS, Partner, name, sku, synced};
use crate::chaos::report::Check;

/// The window of the only limit.
const MINUTE: Duration = Duration::from_mins(1);

/// All invariants of partners.
pub(super) async fn all(
    psql: &mut PgConnection,
    partners: &[Partner],
    course: &Course<'_>,
) -> anyhow::Result<Vec<Check>> {
    Ok(vec![
        ended(psql, partners).await?,
        brought_in(psql, partners).await?,
        sent_out(psql, partners).await?,
        asked(partners),
        limited(partners, course),
        closed(partners, course),
    ])
}

/// Checks that each sync and send-out ended: with success, or, where no attempt could succeed, with a reason.
async fn ended(psql: &mut PgConnection, partners: &[Partner]) -> anyhow::Result<Check> {
    let (mut syncs, mut found) = (0, Vec::new());
    for partner in partners {
        let jobs: Vec<Uuid> = partner.promises().syncs.iter().copied().collect();
        syncs += jobs.len() as u64;
        let failed: Vec<(Uuid, Option<String>, Option<String>)> = sqlx::query_as(
            "SELECT given.id, job.state, job.error FROM unnest($1::uuid[]) AS given (id) LEFT JOIN job USING (id)
             WHERE job.state IS DISTINCT FROM 'succeeded'",
        )
        .bind(&jobs)
        .fetch_all(&mut *psql)
        .await?;
        found.extend(failed.into_iter().filter_map(|(job, state, error)| {
            let error = error.unwrap_or_default();
            // a chunk that dies with three processes fails with this reason, which is correct, too
            let explained = partner.serves.explains(&error) || error.contains("process died");
            let failed = state.as_deref() == Some("failed") && explained;
            let state = state.unwrap_or_else(|| "missing".to_owned());
            (!failed).then(|| format!("{job} of {} is {state}: {error}", partner.name))
        }));
    }
    Ok(Check::new("each sync of a partner ended, by success or with a reason", syncs, found))
}

/// Checks that the last sync brought in each product once, with its name in the last edition.
async fn brought_in(psql: &mut PgConnection, partners: &[Partner]) -> anyhow::Result<Check> {
    let mut found = Vec::new();
    for partner in partners {
        let last = partner.promises().last;
        let wrong: Vec<String> = sqlx::query_scalar(
            "SELECT coalesce(to_jsonb(job) - 'parameters', 'null')::text FROM unnest(ARRAY[$1]) AS given (id)
             LEFT JOIN job USING (id)
             WHERE job.state IS DISTINCT FROM 'succeeded' OR (job.total, job.done, job.failed) <> ($2, $2, 0)",
        )
        .bind(last)
        .bind(i32::try_from(PRODUCTS)?)
        .fetch_all(&mut *psql)
        .await?;
        found.extend(wrong.iter().map(|job| format!("the last sync of {}: {job}", partner.name)));
        // the number of name changes is not checked: a fetch that starts again after a change of the feed has
        // pages of both editions in one job, whose chunks run in parallel
        let there: Vec<(String, String, i64)> = sqlx::query_as(
            "SELECT product_sku, name, (SELECT count(*) FROM audit
                                        WHERE audit.entity_id = product.id AND audit.changes->'name'->0 = 'null')
             FROM product WHERE organisation_id = $1",
        )
        .bind(partner.tenant.organisation)
        .fetch_all(&mut *psql)
        .await?;
        let there = there.into_iter().map(|(sku, name, created)| (sku, (name, created)));
        let mut there: BTreeMap<String, (String, i64)> = there.collect();
        for number in 0..PRODUCTS {
            let (sku, expected) = (sku(number), (name(number, partner.serves.edition()), 1));
            match there.remove(&sku) {
                Some(product) if product == expected => {}
                other => {
                    let name = partner.name;
                    found.push(format!(
                        "{sku} of {name} (name, created) is {other:?} instead of {expected:?}"
                    ));
                }
            }
        }
        found
            .extend(there.into_iter().map(|(sku, product)| format!("{sku} is in no catalogue: {product:?}")));
    }
    let products = (PRODUCTS * partners.len()) as u64;
    Ok(Check::new(
        "each product of a partner came in once, as it is called last, and no other",
        products,
        found,
    ))
}

/// Checks that after the nightly comparison each partner offers the available quantities, and that the
/// service knows them.
async fn sent_out(psql: &mut PgConnection, partners: &[Partner]) -> anyhow::Result<Check> {
    let mut found = Vec::new();
    for partner in synced(partners) {
        let taken: Vec<(String, Option<i32>)> =
            sqlx::query_as("SELECT item, taken FROM partner_stock WHERE eshop_id = $1")
                .bind(partner.tenant.eshop)
                .fetch_all(&mut *psql)
                .await?;
        let taken: BTreeMap<String, Option<i32>> = taken.into_iter().collect();
        let held: Vec<(String, i64)> = sqlx::query_as(
            "SELECT p.product_sku, s.held FROM product_stock s JOIN product p ON p.id = s.product_id
             WHERE s.organisation_id = $1",
        )
        .bind(partner.tenant.organisation)
        .fetch_all(&mut *psql)
        .await?;
        let held: BTreeMap<String, i64> = held.into_iter().collect();
        let mut offers = partner.serves.offers();
        for number in 0..PRODUCTS {
            let sku = sku(number);
            let held = held.get(&sku).copied().unwrap_or_default();
            let (available, offered) = (partner.available(&sku, held), offers.remove(&sku));
            let taken = taken.get(&partner.serves.item(number)).copied().flatten().map(i64::from);
            if offered != Some(available) || taken != Some(available) {
                let name = partner.name;
                found.push(format!(
                    "{sku} of {name}: {available} available, offered {offered:?}, taken {taken:?}"
                ));
            }
        }
        found.extend(offers.into_keys().map(|sku| format!("{sku} of {} is none of ours", partner.name)));
    }
    let products = (PRODUCTS * synced(partners).count()) as u64;
    Ok(Check::new("each partner offers what is available, after a night", products, found))
}

/// Checks that partners were asked only for their own data, and that no redirect was followed.
fn asked(partners: &[Partner]) -> Check {
    let (mut asked, mut found) = (0, Vec::new());
    for partner in synced(partners) {
        let book = partner.serves.book();
        asked += book.asked;
        found.extend(book.odd.iter().map(|odd| format!("{}: {odd}", partner.name)));
    }
    Check::new("partners were asked for what is theirs, and nowhere else", asked, found)
}

/// Checks that no limit was exceeded, even when Redis, which counts the requests, lost its data.
fn limited(partners: &[Partner], course: &Course<'_>) -> Check {
    let (mut asked, mut found) = (0, Vec::new());
    for partner in synced(partners) {
        let Some(Limited { came, over }) = partner.serves.book().limited else { continue };
        asked += came.len() as u64;
        found.extend(over.iter().map(|(at, nth)| {
            let at = at.saturating_duration_since(course.began).as_secs_f64();
            format!("{}, {at:.1} s: request no {nth} of a minute", partner.name)
        }));
    }
    Check::new("no token sent more requests in a minute than the limit of its partner", asked, found)
}

/// Checks that after Redis lost its count, no request was sent until all earlier ones had left every window.
/// A slot that was already taken may still be used, for as long as a request may last.
fn closed(partners: &[Partner], course: &Course<'_>) -> Check {
    let (mut looked_at, mut found) = (0, Vec::new());
    for partner in synced(partners) {
        let Some(Limited { came, .. }) = partner.serves.book().limited else { continue };
        for Emptied { from, until } in &course.emptied {
            let Some(last) = came.iter().rev().find(|at| *at <= from) else { continue };
            let shut = shut(*last, *until);
            looked_at += u64::from(!shut.is_empty());
            found.extend(came.iter().filter(|at| shut.contains(*at)).map(|at| {
                let [at, last, until] =
                    [*at, *last, *until].map(|at| at.saturating_duration_since(course.began).as_secs_f64());
                format!(
                    "{}, {at:.1} s: asked although Redis was empty at {until:.1} s, and the last request before it came at {last:.1} s",
                    partner.name
                )
            }));
        }
    }
    let name = "where what was sent before is not known, no worker asked until it was out of every window";
    Check::new(name, looked_at, found)
}

/// When no request may arrive: after all slots taken before the loss have been used, and before the last
/// earlier request has left every window.
fn shut(last: Instant, lost: Instant) -> Range<Instant> {
    lost + DOCUMENTED.longest_request..last + MINUTE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_in_hand_may_be_used_but_no_new_one_is_given_until_earlier_requests_left_every_window() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let shut = shut(at(10), at(11));
        assert!([42, 69].iter().all(|seconds| shut.contains(&at(*seconds))));
        assert!([1, 10, 15, 40, 70, 110].iter().all(|seconds| !shut.contains(&at(*seconds))));
    }
}
