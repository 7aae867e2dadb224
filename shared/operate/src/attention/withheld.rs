//! Syncs whose guard has withheld something (`docs/reference/attention.md#lines`).

use chrono::{DateTime, Utc};
use longshore_domain::attention::{Kind, Line, Owner, Page, Severity};
use longshore_domain::job::shares::LISTED;
use longshore_domain::job::withheld::KEPT_DAYS;
use longshore_domain::newest_in_shares;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::number;
use longshore_kernel::ids::{JobId, OrganisationId};
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
    let found = newest_in_shares!(
        Withholding,
        jobs: "withheld > 0",
        r#"withholding AS (
               SELECT n.*, s.name, row_number() OVER (PARTITION BY n.organisation_id ORDER BY n.created_at DESC, n.id) AS turn
               FROM newest n
               CROSS JOIN LATERAL (SELECT name, organisation_id FROM eshop WHERE id = ANY (ARRAY[n.eshop_id]) LIMIT 1) AS s
               WHERE in_scope($1, s.organisation_id) AND in_eshop($3, n.eshop_id)
                 AND EXISTS (SELECT FROM withheld w WHERE w.job_id = n.id)
           )
           SELECT w.id AS "job!: JobId", w.kind AS "kind!", w.organisation_id AS "organisation_id!: OrganisationId",
                  w.name AS "eshop!",
                  (SELECT count(*) FROM withheld h WHERE h.job_id = w.id) AS "withheld!",
                  (j.parameters ->> 'guardBase')::bigint AS base, j.finished_at AS ended_at
           FROM withholding w JOIN job j ON j.id = w.id
           ORDER BY w.turn, w.created_at DESC, w.id LIMIT $6"#,
        scope.organisations(),
        scope.eshop(),
        KEPT_DAYS,
        LISTED,
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
