//! Whether what a guarded sync kept aside is executed.

use std::collections::HashMap;

use serde_json::Value;
use sqlx::PgConnection;

use crate::job::chunk::Claim;
use crate::job::dispatch;
use crate::job::entry::to_i32;
use crate::job::guard::Limit;
use crate::job::kind::{JobKind, JobState};
use crate::job::payload::{ROWS_PER_CHUNK, Rows};
use crate::job::row_lines::RowLines;
use longshore_kernel::change::Change;
use longshore_kernel::ids::JobId;
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;
use longshore_kernel::services::Services;

/// What there is of what a job may destroy, counted once, when it starts.
///
/// # Errors
/// Those of the database.
pub async fn note_base(services: &Services, claim: &Claim) -> Result<(), Problem> {
    if !claim.limit().is_some_and(Limit::is_share) || claim.parameters.get("guardBase").is_some() {
        return Ok(());
    }
    let eshop = claim.eshop.unwrap_or_default();
    let base = match claim.kind {
        Ok(JobKind::ProductSync) => {
            sqlx::query_scalar!(
                r#"SELECT count(*) AS "count!" FROM product_eshop e JOIN product p ON p.id = e.product_id
                   WHERE e.eshop_id = $1 AND p.active"#,
                eshop.get()
            )
            .fetch_one(&services.db.main)
            .await?
        }
        Ok(JobKind::StockSync) => {
            sqlx::query_scalar!(
                r#"SELECT count(*) AS "count!" FROM product_eshop e JOIN product_stock s ON s.product_id = e.product_id
                   WHERE e.eshop_id = $1 AND s.warehouse_id = $2::text::uuid AND s.wms_id = $3::text::uuid AND s.quantity > 0"#,
                eshop.get(),
                claim.parameters.get("warehouse").and_then(Value::as_str),
                claim.parameters.get("wms").and_then(Value::as_str),
            )
            .fetch_one(&services.db.main)
            .await?
        }
        _ => {
            sqlx::query_scalar!(
                r#"SELECT count(*) AS "count!" FROM expedition WHERE eshop_id = $1 AND can_be_cancelled(status)"#,
                eshop.get()
            )
            .fetch_one(&services.db.main)
            .await?
        }
    };
    sqlx::query!(
        "UPDATE job SET parameters = parameters || jsonb_build_object('guardBase', $2::bigint)
         WHERE id = $1 AND NOT parameters ? 'guardBase'",
        claim.job.get(),
        base,
    )
    .execute(&services.db.main)
    .await?;
    Ok(())
}

/// What became of what a job kept aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::job) enum Decision {
    /// There was nothing.
    Nothing,
    /// It is executed now: the job goes on.
    Executed,
    /// It is withheld.
    Withheld,
}

/// Decides what becomes of what a job kept aside, in the transaction that has ended its last chunk and locks it.
pub(in crate::job) async fn decide(
    change: &mut Change<'_>,
    claim: &Claim,
    state: JobState,
) -> Result<Decision, Problem> {
    let Some((limit, shop)) = claim.guard().zip(claim.eshop) else { return Ok(Decision::Nothing) };
    let tx = change.connection();
    let found = sqlx::query!(
        r#"SELECT total - done AS "aside!", coalesce((parameters ->> 'guardBase')::bigint, 0) AS "base!",
                  (SELECT count(*) FROM withheld WHERE job_id = $1) AS "kept!",
                  (SELECT coalesce(sum(j.destructive), 0) FROM job j
                   WHERE j.eshop_id = $2 AND j.created_at > now() - interval '1 day' AND j.kind = $3
                     AND j.source IS NOT DISTINCT FROM $4 AND j.id <> $1
                     AND coalesce(j.finished_at, now()) > now() - interval '1 hour')::bigint AS "of_late!"
           FROM job WHERE id = $1"#,
        claim.job.get(),
        shop.get(),
        claim.kind_name(),
        claim.source,
    )
    .fetch_one(&mut *tx)
    .await?;
    if found.aside == 0 {
        return Ok(Decision::Nothing);
    }
    let kept = i32::try_from(found.kept).map_err(Problem::internal)?;
    // what was given by others in the meantime is as it should be
    let overtaken = found.aside - kept;
    if state == JobState::Succeeded && found.kept <= limit.allows(found.base, found.of_late) {
        let chunks = execute(tx, claim.job).await?;
        sqlx::query!(
            "UPDATE job SET done = done + $2, unchanged = unchanged + $2, destructive = destructive + $3, chunks_open = $4,
                 state = CASE WHEN $4 = 0 THEN state ELSE 'running' END, finished_at = CASE WHEN $4 = 0 THEN finished_at END,
                 out_of_line_until = CASE WHEN $4 = 0 THEN out_of_line_until END
             WHERE id = $1",
            claim.job.get(),
            overtaken,
            kept,
            chunks,
        )
        .execute(&mut *tx)
        .await?;
        if chunks > 0 {
            dispatch::note(change, Queue::Chunk, claim.organisation);
        }
        return Ok(if chunks > 0 { Decision::Executed } else { Decision::Nothing });
    }
    sqlx::query!(
        "UPDATE job SET done = done + $2 + $3, unchanged = unchanged + $2, withheld = $3 WHERE id = $1",
        claim.job.get(),
        overtaken,
        kept,
    )
    .execute(tx)
    .await?;
    Ok(if kept > 0 { Decision::Withheld } else { Decision::Nothing })
}

/// Makes chunks of what a job kept aside, each of one acceptance; returns how many.
pub(in crate::job) async fn execute(tx: &mut PgConnection, job: JobId) -> Result<i32, Problem> {
    let mut number = sqlx::query_scalar!(
        r#"SELECT coalesce(max(number), -1) AS "number!" FROM job_chunk WHERE job_id = $1"#,
        job.get()
    )
    .fetch_one(&mut *tx)
    .await?;
    let mut chunks = 0;
    loop {
        let rows = sqlx::query!(
            "DELETE FROM job_withheld WHERE job_id = $1 AND index = ANY (ARRAY(
                 SELECT index FROM withheld WHERE job_id = $1 ORDER BY acceptance, index LIMIT $2))
             RETURNING index, line, payload, acceptance",
            job.get(),
            i64::try_from(ROWS_PER_CHUNK).map_err(Problem::internal)?,
        )
        .fetch_all(&mut *tx)
        .await?;
        let mut of: HashMap<i64, Vec<_>> = HashMap::new();
        for row in rows {
            of.entry(row.acceptance).or_default().push(row);
        }
        if of.is_empty() {
            break;
        }
        let mut of: Vec<_> = of.into_iter().collect();
        of.sort_unstable_by_key(|(acceptance, _)| *acceptance);
        for (acceptance, mut rows) in of {
            rows.sort_unstable_by_key(|row| row.index);
            let (mut packed, mut lines) = (Rows::default(), RowLines::default());
            for (position, row) in rows.iter().enumerate() {
                packed.push(&row.payload);
                if let Some(line) = row.line {
                    lines.push(position, line);
                }
            }
            number += 1;
            sqlx::query!(
                "INSERT INTO job_chunk (job_id, number, state, payload, item_count, first_index, indexes, lines, acceptance, is_decided)
                 VALUES ($1, $2, 'queued', $3, $4, 0, $5, $6, $7, true)",
                job.get(),
                number,
                packed.take(),
                to_i32(rows.len())?,
                &rows.iter().map(|row| row.index).collect::<Vec<_>>(),
                lines.stored(),
                acceptance,
            )
            .execute(&mut *tx)
            .await?;
            chunks += 1;
        }
    }
    // what was overtaken
    sqlx::query!("DELETE FROM job_withheld WHERE job_id = $1", job.get()).execute(tx).await?;
    Ok(chunks)
}
