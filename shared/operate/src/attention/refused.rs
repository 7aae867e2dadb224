//! Syncs that succeeded and refused their rows (`docs/reference/attention.md#lines`): all of them, or most of many.

use chrono::{DateTime, Utc};
use longshore_domain::attention::{Kind, Line, Owner, Page, Severity};
use longshore_domain::job::shares::LISTED;
use longshore_domain::newest_in_shares;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::{counted, number, seconds};
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;
use longshore_kernel::word::plain;

/// Days that are looked at: a sync of each night is there until the next, over a weekend.
const DAYS: i32 = 3;
/// Syncs in a row that are counted.
const RUNS: i64 = 1_000;
/// Jobs of an e-shop, before the sync, among which the last that applied a row is looked for.
const BEFORE: i64 = 200;
/// The same after it.
const AFTER: i64 = 10_000;

/// Refused rows that are many. The index `job_refused_of_organisation` and the queries by it have the same number.
const MANY: i32 = 100;

/// How much a sync refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// All of its rows: it applied nothing.
    All,
    /// At least half of its rows, and many.
    Most,
}

impl Refused {
    /// Of a sync that succeeded; nothing where it applied most of its rows, or refused only a few.
    fn of(total: i32, failed: i32) -> Option<Self> {
        match failed {
            ..=0 => None,
            _ if failed >= total => Some(Self::All),
            MANY.. if failed >= total - failed => Some(Self::Most),
            _ => None,
        }
    }

    /// Before "rows".
    fn in_words(self) -> &'static str {
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

/// Looks for them: for the newest such sync of each kind of each e-shop, organisations in shares. Of that it asks whether a later one
/// applied a row. A sync without rows, such as of a feed that has not changed, says nothing.
async fn read(db: &Database, scope: &Scope) -> Result<Vec<Refusing>, Problem> {
    let found = newest_in_shares!(
        Refusing,
        jobs: "state = 'succeeded' AND kind IN ('product.sync', 'stock.sync', 'stock.send', 'expedition.sync')
               AND failed > 0 AND (failed = total OR (failed >= 100 AND failed >= total - failed))",
        r#"refusing AS (
               SELECT n.*, s.name, row_number() OVER (PARTITION BY n.organisation_id ORDER BY n.created_at DESC, n.id) AS turn
               FROM newest n
               CROSS JOIN LATERAL (SELECT name, organisation_id FROM eshop WHERE id = ANY (ARRAY[n.eshop_id]) LIMIT 1) AS s
               WHERE in_scope($1, s.organisation_id) AND in_eshop($3, n.eshop_id)
                 -- those of its e-shop in their order: of all that succeeded, Postgres may make a bitmap
                 AND (SELECT true FROM (
                          SELECT kind, state, total, failed FROM job
                          WHERE eshop_id = ANY (ARRAY[n.eshop_id]) AND created_at > n.created_at
                          ORDER BY eshop_id, created_at, id LIMIT (SELECT $7::bigint)) AS j
                      WHERE j.kind = n.kind AND j.state = 'succeeded' AND j.failed < j.total LIMIT 1) IS NULL
           ), named AS (
               SELECT * FROM refusing ORDER BY turn, created_at DESC, id LIMIT $8
           )
           SELECT r.id AS "job!: JobId", r.kind AS "kind!", r.organisation_id AS "organisation_id!: OrganisationId",
                  r.eshop_id AS "eshop_id!: EshopId", r.name AS "eshop!", job.total AS "total!", job.failed AS "failed!",
                  row.runs AS "runs!", row.since AS "since!", before.applied_at,
                  (SELECT left(e.message, 200) FROM job_item_error e WHERE e.job_id = ANY (ARRAY[r.id]) AND NOT e.notice
                   ORDER BY e.job_id, e.index LIMIT 1) AS message
           FROM named r
           CROSS JOIN LATERAL (SELECT total, failed FROM job WHERE id = ANY (ARRAY[r.id]) LIMIT 1) AS job
           CROSS JOIN LATERAL (
               SELECT max(j.created_at) AS applied_at FROM (
                   SELECT kind, state, total, failed, created_at FROM job
                   WHERE eshop_id = ANY (ARRAY[r.eshop_id]) AND created_at < r.created_at
                   ORDER BY eshop_id DESC, created_at DESC, id DESC LIMIT (SELECT $6::bigint)) AS j
               WHERE j.kind = r.kind AND j.state = 'succeeded' AND j.failed < j.total
                 AND NOT (j.failed >= 100 AND j.failed >= j.total - j.failed)) AS before
           CROSS JOIN LATERAL (
               SELECT count(*) AS runs, min(created_at) AS since FROM (
                   SELECT created_at FROM job
                   WHERE state = 'succeeded' AND kind IN ('product.sync', 'stock.sync', 'stock.send', 'expedition.sync')
                     AND failed > 0 AND (failed = total OR (failed >= 100 AND failed >= total - failed))
                     -- in an order of which the other indexes on an organisation and an e-shop have no part
                     AND organisation_id = r.organisation_id AND eshop_id = r.eshop_id AND kind <= r.kind
                     AND (kind, created_at) > (r.kind, greatest(before.applied_at, now() - make_interval(days => $4)))
                   ORDER BY kind DESC, created_at DESC LIMIT (SELECT $9::bigint)) AS run) AS row
           ORDER BY row.since, r.eshop_id, r.kind"#,
        scope.organisations(),
        scope.eshop(),
        DAYS,
        BEFORE,
        AFTER,
        LISTED,
        RUNS,
    )
    .fetch_all(&db.main)
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
        plain(&sync.kind),
        sync.eshop,
        refused.in_words(),
        number(sync.failed),
        number(sync.total)
    );
    // of one that refuses most rows, an acknowledgement does not cover that it refuses all
    let subject = format!("{} {} {}", sync.eshop_id, sync.kind, refused.in_words());
    let owner = Owner::Organisation(sync.organisation_id);
    let line = Line::new(Kind::RefusedRows, &subject, owner, sentence, Page::Record("job", sync.job.into()));
    Some(Line { severity, word: "refused", cause: sync.applied_at, ..line })
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_sync_that_refused_all_its_rows_or_most_of_many_has_a_line() {
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
        let all = "product sync of Harbour has refused all rows for 6 min: 1,412 of 1,412 in the last run. The first: name is missing";
        assert_eq!(said(&sync), (Severity::Critical, all.to_owned()));
        let most = Refusing { failed: 1_400, runs: 5, message: None, ..sync };
        let sentence =
            "product sync of Harbour has refused most rows for 6 min: 1,400 of 1,412 in the last of 5 runs.";
        assert_eq!(said(&most), (Severity::Warning, sentence.to_owned()));
    }
}
