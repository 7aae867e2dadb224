//! Syncs whose guard has withheld something (`docs/reference/attention.md#lines`).

use chrono::{DateTime, Utc};
use longshore_domain::attention::{Kind, Line, Owner, Page, Severity};
use longshore_domain::job::shares::{LISTED, READ};
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::number;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

/// The last sync of a kind of an e-shop that withholds something.
#[derive(Clone, Debug)]
struct Withholding {
    job: JobId,
    kind: String,
    organisation_id: OrganisationId,
    eshop: String,
    /// Rows that could be released.
    withheld: i64,
    /// What there was of these records.
    base: Option<i64>,
    ended_at: Option<DateTime<Utc>>,
}

/// The lines about them.
pub(super) async fn lines(db: &Database, scope: &Scope) -> Result<Vec<Line>, Problem> {
    let found = sqlx::query_as!(
        Withholding,
        r#"WITH RECURSIVE kept (job_id, nth) AS (
               -- from job to job, the newest first, however many rows each has
               (SELECT job_id, 1::bigint FROM job_withheld ORDER BY job_id DESC LIMIT 1)
               UNION ALL
               SELECT before.job_id, k.nth + 1
               FROM kept k CROSS JOIN LATERAL (
                   SELECT job_id FROM job_withheld WHERE job_id < k.job_id ORDER BY job_id DESC LIMIT 1) AS before
               WHERE k.nth < $4
           ), withholding AS (
               SELECT DISTINCT ON (j.eshop_id, j.kind) j.id, j.kind, j.organisation_id, s.name, j.created_at, j.finished_at, j.parameters
               FROM kept k
               CROSS JOIN LATERAL (SELECT * FROM job WHERE id = ANY (ARRAY[k.job_id]) AND withheld > 0 LIMIT 1) AS j
               CROSS JOIN LATERAL (SELECT name FROM eshop WHERE id = ANY (ARRAY[j.eshop_id]) LIMIT 1) AS s
               WHERE in_scope($1, j.organisation_id) AND in_eshop($2, j.eshop_id)
                 AND EXISTS (SELECT FROM withheld w WHERE w.job_id = j.id)
               ORDER BY j.eshop_id, j.kind, j.created_at DESC
           ), turns AS (
               SELECT *, row_number() OVER (PARTITION BY organisation_id ORDER BY created_at DESC, id) AS turn FROM withholding
           )
           SELECT t.id AS "job!: JobId", t.kind AS "kind!", t.organisation_id AS "organisation_id!: OrganisationId", t.name AS "eshop!",
                  (SELECT count(*) FROM withheld h WHERE h.job_id = t.id) AS "withheld!",
                  (t.parameters ->> 'guardBase')::bigint AS base, t.finished_at AS ended_at
           FROM turns t ORDER BY t.turn, t.created_at DESC, t.id LIMIT $3"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        LISTED,
        READ,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found.iter().map(line).collect())
}

fn line(found: &Withholding) -> Line {
    let what = match found.kind.as_str() {
        "product.sync" => "products would be deactivated",
        "stock.sync" => "stocks would be set to 0",
        _ => "orders would be cancelled",
    };
    let of = found.base.map(|base| format!(" of {}", number(base))).unwrap_or_default();
    let sentence = format!("{}: {}{of} {what}; withheld.", found.eshop, number(found.withheld));
    let subject = found.job.to_string();
    let owner = Owner::Organisation(found.organisation_id);
    let line = Line::new(Kind::Withheld, &subject, owner, sentence, Page::Record("job", found.job.into()));
    Line { severity: Severity::Critical, word: "withheld", cause: found.ended_at, ..line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_of_how_much_is_withheld() {
        let found = Withholding {
            job: JobId::nil(),
            kind: "product.sync".to_owned(),
            organisation_id: OrganisationId::nil(),
            eshop: "alpinesport.de".to_owned(),
            withheld: 9_120,
            base: Some(9_400),
            ended_at: None,
        };
        let line = line(&found);
        assert_eq!(line.severity, Severity::Critical);
        assert_eq!(line.sentence, "alpinesport.de: 9,120 of 9,400 products would be deactivated; withheld.");
    }
}
