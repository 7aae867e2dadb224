//! Syncs that succeeded and refused their rows (`docs/reference/attention.md#lines`): all of them, or most of many.

use chrono::{DateTime, Utc};
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::{counted, number, seconds};
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

use super::{Kind, Line, Owner, Severity};

/// Days that are looked at: a sync of each night is there until the next, over a weekend.
const DAYS: i32 = 3;
/// Kinds of sync of an e-shop that are looked at.
const LOOKED_AT: i64 = 1_000;
/// Those of them that have a line: the newest.
const NAMED: i64 = 20;
/// Syncs in a row that are counted.
const RUNS: i64 = 1_000;
/// Jobs of an e-shop, before the sync, among which the last that applied a row is looked for.
const BEFORE: i64 = 200;
/// The same after it.
const AFTER: i64 = 10_000;

/// Refused rows that are many. The index `job_refused` (migration 0051) and the queries by it have the same number.
const MANY: i32 = 100;

/// How much a sync refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// All of its rows: it applied nothing.
    All,
    /// At least half of its rows, and many.
    Most,
}

impl Refused {
    /// Of a sync that succeeded; nothing where it applied most of its rows, or refused only a few.
    #[must_use]
    pub fn of(total: i32, failed: i32) -> Option<Self> {
        match failed {
            ..=0 => None,
            _ if failed >= total => Some(Self::All),
            MANY.. if failed >= total - failed => Some(Self::Most),
            _ => None,
        }
    }

    /// Before "rows".
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Most => "most",
        }
    }
}

/// The last sync of a kind of an e-shop, which refused its rows.
#[derive(Clone, Debug)]
struct Refusing {
    job: JobId,
    kind: String,
    organisation_id: OrganisationId,
    eshop_id: EshopId,
    eshop: String,
    total: i32,
    failed: i32,
    /// Those in a row that did, with this one.
    runs: i64,
    /// When the first of these was accepted.
    since: DateTime<Utc>,
    /// When the last one before them was accepted that applied its rows.
    applied_at: Option<DateTime<Utc>>,
    /// Why the first row was refused.
    message: Option<String>,
}

/// The lines about them.
pub(super) async fn lines(db: &Database, scope: &Scope, now: DateTime<Utc>) -> Result<Vec<Line>, Problem> {
    let syncs = read(db, scope).await?;
    Ok(syncs.iter().filter_map(|sync| line(sync, now)).collect())
}

/// Looks for them. It skips from one kind of one e-shop to the next through the index of such syncs, and asks of the newest one
/// whether a later one applied a row. A sync without rows, such as of a feed that has not changed, says nothing.
async fn read(db: &Database, scope: &Scope) -> Result<Vec<Refusing>, Problem> {
    let found = sqlx::query_as!(
        Refusing,
        r#"WITH RECURSIVE pair (eshop_id, kind, nth) AS (
               (SELECT eshop_id, kind, 1::bigint FROM job
                WHERE state = 'succeeded' AND kind IN ('product.sync', 'stock.sync', 'stock.send', 'expedition.sync')
                  AND failed > 0 AND (failed = total OR (failed >= 100 AND failed >= total - failed))
                  AND eshop_id >= coalesce($2::uuid, '00000000-0000-0000-0000-000000000000')
                ORDER BY eshop_id, kind, created_at LIMIT 1)
               UNION ALL
               SELECT following.eshop_id, following.kind, p.nth + 1
               FROM pair p CROSS JOIN LATERAL (
                   SELECT eshop_id, kind FROM job
                   WHERE state = 'succeeded' AND kind IN ('product.sync', 'stock.sync', 'stock.send', 'expedition.sync')
                     AND failed > 0 AND (failed = total OR (failed >= 100 AND failed >= total - failed))
                     AND (eshop_id, kind) > (p.eshop_id, p.kind)
                   ORDER BY eshop_id, kind, created_at LIMIT 1) AS following
               WHERE p.nth < $3
           ), refusing AS (
               SELECT p.eshop_id, p.kind, s.organisation_id, s.name, last.id, last.total, last.failed,
                      (SELECT max(j.created_at) FROM (
                           SELECT kind, state, total, failed, created_at FROM job
                           WHERE eshop_id = ANY (ARRAY[p.eshop_id]) AND created_at < last.created_at
                           ORDER BY eshop_id DESC, created_at DESC, id DESC LIMIT (SELECT $5::bigint)) AS j
                       WHERE j.kind = p.kind AND j.state = 'succeeded' AND j.failed < j.total
                         AND NOT (j.failed >= 100 AND j.failed >= j.total - j.failed)) AS applied_at
               FROM pair p
               JOIN eshop s ON s.id = ANY (ARRAY[p.eshop_id])
               CROSS JOIN LATERAL (
                   SELECT id, total, failed, created_at FROM job
                   WHERE state = 'succeeded' AND kind IN ('product.sync', 'stock.sync', 'stock.send', 'expedition.sync')
                     AND failed > 0 AND (failed = total OR (failed >= 100 AND failed >= total - failed))
                     AND (eshop_id, kind) <= (p.eshop_id, p.kind)
                     AND (eshop_id, kind, created_at) > (p.eshop_id, p.kind, now() - make_interval(days => $4))
                   ORDER BY eshop_id DESC, kind DESC, created_at DESC LIMIT 1) AS last
               WHERE in_scope($1, s.organisation_id) AND in_eshop($2, s.id)
                 -- those of its e-shop in their order: of all that succeeded, Postgres may make a bitmap
                 AND (SELECT true FROM (
                          SELECT kind, state, total, failed FROM job
                          WHERE eshop_id = ANY (ARRAY[p.eshop_id]) AND created_at > last.created_at
                          ORDER BY eshop_id, created_at, id LIMIT (SELECT $6::bigint)) AS j
                      WHERE j.kind = p.kind AND j.state = 'succeeded' AND j.failed < j.total LIMIT 1) IS NULL
               ORDER BY last.created_at DESC LIMIT $7
           )
           SELECT r.id AS "job!: JobId", r.kind AS "kind!", r.organisation_id AS "organisation_id!: OrganisationId",
                  r.eshop_id AS "eshop_id!: EshopId", r.name AS "eshop!", r.total AS "total!", r.failed AS "failed!",
                  row.runs AS "runs!", row.since AS "since!", r.applied_at,
                  (SELECT left(e.message, 200) FROM job_item_error e WHERE e.job_id = ANY (ARRAY[r.id]) AND NOT e.notice
                   ORDER BY e.job_id, e.index LIMIT 1) AS message
           FROM refusing r
           CROSS JOIN LATERAL (
               SELECT count(*) AS runs, min(created_at) AS since FROM (
                   SELECT created_at FROM job
                   WHERE state = 'succeeded' AND kind IN ('product.sync', 'stock.sync', 'stock.send', 'expedition.sync')
                     AND failed > 0 AND (failed = total OR (failed >= 100 AND failed >= total - failed))
                     AND (eshop_id, kind) <= (r.eshop_id, r.kind)
                     AND (eshop_id, kind, created_at)
                         > (r.eshop_id, r.kind, greatest(r.applied_at, now() - make_interval(days => $4)))
                   ORDER BY eshop_id DESC, kind DESC, created_at DESC LIMIT $8) AS run) AS row
           ORDER BY row.since, r.eshop_id, r.kind"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        LOOKED_AT,
        DAYS,
        BEFORE,
        AFTER,
        NAMED,
        RUNS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

fn line(sync: &Refusing, now: DateTime<Utc>) -> Option<Line> {
    let refused = Refused::of(sync.total, sync.failed)?;
    let severity = match refused {
        Refused::All => Severity::Critical,
        Refused::Most => Severity::Warning,
    };
    let lasted = seconds((now - sync.since).as_seconds_f64());
    let last =
        if sync.runs == 1 { "run".to_owned() } else { format!("of {}", counted(sync.runs, "run", "runs")) };
    let first = sync.message.as_deref().map(|message| format!(" The first: {message}")).unwrap_or_default();
    let sentence = format!(
        "{} of {} has refused {} rows for {lasted}: {} of {} in the last {last}.{first}",
        sync.kind,
        sync.eshop,
        refused.in_words(),
        number(sync.failed),
        number(sync.total)
    );
    // of one that refuses most rows, an acknowledgement does not cover that it refuses all
    let subject = format!("{} {} {}", sync.eshop_id, sync.kind, refused.in_words());
    let owner = Owner::Organisation(sync.organisation_id);
    let line = Line::new(Kind::RefusedRows, &subject, owner, sentence, format!("/console/job/{}", sync.job));
    Some(Line { severity, word: "refused", cause: sync.applied_at, ..line })
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_sync_is_told_that_applied_nothing_or_refused_most_of_many_rows() {
        let cases = [
            ((3, 3), Some(Refused::All)),
            ((3, 2), None),
            ((200, 100), Some(Refused::Most)),
            ((201, 100), None),
            ((198, 99), None),
            ((500, 0), None),
            ((0, 0), None),
        ];
        for ((total, failed), expected) in cases {
            assert_eq!(Refused::of(total, failed), expected, "{failed} of {total}");
        }
    }

    #[test]
    fn a_line_says_how_many_rows_were_refused_and_since_when() {
        let now = DateTime::from_timestamp(1_767_225_600, 0).unwrap();
        let sync = Refusing {
            job: JobId::nil(),
            kind: "product.sync".to_owned(),
            organisation_id: OrganisationId::nil(),
            eshop_id: EshopId::nil(),
            eshop: "Harbour".to_owned(),
            total: 1_412,
            failed: 1_412,
            runs: 1,
            since: now - TimeDelta::minutes(6),
            applied_at: None,
            message: Some("name is missing".to_owned()),
        };
        let said = |sync: &Refusing| {
            let line = line(sync, now).unwrap();
            (line.severity, line.sentence)
        };
        let all = "product.sync of Harbour has refused all rows for 6 min: 1,412 of 1,412 in the last run. The first: name is missing";
        assert_eq!(said(&sync), (Severity::Critical, all.to_owned()));
        let most = Refusing { failed: 1_400, runs: 5, message: None, ..sync };
        let sentence =
            "product.sync of Harbour has refused most rows for 6 min: 1,400 of 1,412 in the last of 5 runs.";
        assert_eq!(said(&most), (Severity::Warning, sentence.to_owned()));
    }
}
