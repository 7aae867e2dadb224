//! What must hold of partners: each sync ended, the last one brought in what there is, and what was sent out is what is
//! available.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use uuid::Uuid;

use crate::chaos::partners::{PRODUCTS, Partner, name, sku};
use crate::chaos::report::Check;

/// All of these.
pub(super) async fn all(psql: &mut PgConnection, partners: &[Partner]) -> anyhow::Result<Vec<Check>> {
    Ok(vec![
        ended(psql, partners).await?,
        brought_in(psql, partners).await?,
        sent_out(psql, partners).await?,
        asked(partners),
    ])
}

/// Each sync and send-out ended: with success, or, where no attempt could succeed, with a reason.
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
            // that it died with three processes is what is promised of such a one, too
            let explained = partner.how.is_permanent() && !error.is_empty() || error.contains("process died");
            let failed = state.as_deref() == Some("failed") && explained;
            let state = state.unwrap_or_else(|| "missing".to_owned());
            (!failed).then(|| format!("{job} of the one that {} is {state}: {error}", partner.how.name()))
        }));
    }
    Ok(Check::new("each sync of a partner ended, by success or with a reason", syncs, found))
}

/// The last sync brought in its products, each once, as the last edition names them.
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
        found.extend(
            wrong.iter().map(|job| format!("the last sync of the one that {}: {job}", partner.how.name())),
        );
        // how often it got a name is not looked at: a fetch that began anew, since the feed had changed, has pages of both
        // editions in one job, whose chunks run side by side
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
            let (sku, expected) = (sku(number), (name(number, partner.edition()), 1));
            match there.remove(&sku) {
                Some(product) if product == expected => {}
                other => found.push(format!("{sku} (name, created) is {other:?} instead of {expected:?}")),
            }
        }
        found.extend(there.into_iter().map(|(sku, product)| format!("{sku} is in no feed: {product:?}")));
    }
    let products = (PRODUCTS * partners.len()) as u64;
    Ok(Check::new(
        "each product of a partner came in once, as it is called last, and no other",
        products,
        found,
    ))
}

/// Each partner offers what is available, after a night, and the service knows what it offers.
async fn sent_out(psql: &mut PgConnection, partners: &[Partner]) -> anyhow::Result<Check> {
    let mut found = Vec::new();
    for partner in partners {
        let taken: Vec<(String, Option<i32>)> =
            sqlx::query_as("SELECT item, taken FROM partner_stock WHERE eshop_id = $1")
                .bind(partner.tenant.eshop)
                .fetch_all(&mut *psql)
                .await?;
        let taken: BTreeMap<String, Option<i32>> = taken.into_iter().collect();
        let stocks = partner.book().stocks.clone();
        for sku in (0..PRODUCTS).map(sku) {
            let (available, offered) = (partner.available(&sku), stocks.get(&sku).copied());
            let taken = taken.get(&sku).copied().flatten().map(i64::from);
            if offered != Some(available) || taken != Some(available) {
                let how = partner.how.name();
                found.push(format!(
                    "{sku} of the one that {how}: {available} available, offered {offered:?}, taken {taken:?}"
                ));
            }
        }
        found.extend(stocks.keys().filter(|sku| !sku.starts_with("FEED-")).cloned());
    }
    let products = (PRODUCTS * partners.len()) as u64;
    Ok(Check::new("each partner offers what is available, after a night", products, found))
}

/// A partner was asked for its products, and told of stocks; nobody followed it elsewhere.
fn asked(partners: &[Partner]) -> Check {
    let (mut asked, mut found) = (0, Vec::new());
    for partner in partners {
        let book = partner.book();
        asked += book.asked;
        found.extend(book.odd.iter().map(|odd| format!("{}: {odd}", partner.how.name())));
    }
    Check::new("partners were asked for what is theirs, and nowhere else", asked, found)
}
