//! Jobs that make no progress at their partner (`docs/reference/attention.md#lines`): a call that is not answered, or attempts that
//! fail. A job fails only after its last attempt, hours later.

use chrono::{DateTime, Utc};
use longshore_domain::attention::{Kind, Line, Owner, Page, Severity};
use longshore_domain::job::attention::UNDER_WAY;
use longshore_domain::job::chunk::MAX_ATTEMPTS;
use longshore_domain::job::name::CALLING;
use longshore_domain::job::shares::LISTED;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::{counted, seconds};
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;
use longshore_kernel::word::plain;

/// Minutes without a page after which a job has a line. A page may take two minutes, and an attempt asks three times for it.
const SILENT_MINUTES: i32 = 5;

/// Jobs of a kind and an e-shop that make no progress at their partner.
#[derive(Clone, Debug)]
struct Unanswered {
    /// What they do.
    kind: String,
    /// Their organisation.
    organisation_id: OrganisationId,
    /// Their e-shop.
    eshop_id: EshopId,
    /// Name of that.
    eshop: String,
    /// How many.
    jobs: i64,
    /// The one that has made none for longest.
    job: JobId,
    /// Since when it has made none.
    since: DateTime<Utc>,
    /// Since when the last of them has made none.
    last: DateTime<Utc>,
    /// Attempts of that one since its last progress, with the current one; none while it waits for a known moment.
    attempts: i32,
    /// Why the last of these failed.
    error: Option<String>,
}

impl Unanswered {
    /// For how long, in what attempt, and what the last error was.
    fn in_words(&self, now: DateTime<Utc>) -> String {
        let idle = seconds((now - self.since).as_seconds_f64());
        let jobs =
            if self.jobs == 1 { String::new() } else { format!(" ({})", counted(self.jobs, "job", "jobs")) };
        let attempt = match self.attempts {
            ..=0 => String::new(),
            attempt => format!(", attempt {attempt} of {MAX_ATTEMPTS}"),
        };
        let error = self.error.as_deref().unwrap_or("no answer yet");
        format!(
            "{} of {}{jobs} has made no progress at its partner for {idle}{attempt}: {error}",
            plain(&self.kind),
            self.eshop
        )
    }
}

/// The lines about them.
pub(super) async fn lines(db: &Database, scope: &Scope, now: DateTime<Utc>) -> Result<Vec<Line>, Problem> {
    Ok(read(db, scope).await?.iter().map(|silent| line(silent, now)).collect())
}

/// Looks for them, among [`UNDER_WAY`] jobs with a partner, by the index on these. The first of each organisation are listed, then the
/// next of each.
///
/// A pull has made no progress since its last page, or since it started. The attempt that runs counts only while none has failed since
/// then: else each would begin anew. A send-out has no pages, and has made none since an attempt failed. What waits for its turn is
/// not looked at: a call runs, or the last attempt failed.
async fn read(db: &Database, scope: &Scope) -> Result<Vec<Unanswered>, Problem> {
    let found = sqlx::query_as!(
        Unanswered,
        r#"WITH live AS MATERIALIZED (
               SELECT id, organisation_id, eshop_id, kind, state, created_at, started_at, accepted_at FROM job
               WHERE source IS NOT NULL AND state IN ('queued', 'running', 'retrying')
                 AND in_scope($1, organisation_id) AND in_eshop($2, eshop_id)
               ORDER BY organisation_id, acceptance LIMIT $3
           ), calling AS MATERIALIZED (
               -- one that has not been there for so long has made progress since then
               SELECT * FROM live
               WHERE eshop_id IS NOT NULL AND state <> 'queued'
                 AND coalesce(started_at, created_at) < now() - make_interval(mins => $4)
           ), silent AS (
               SELECT j.id, j.kind, j.organisation_id, j.eshop_id, c.attempts, c.error,
                      CASE WHEN j.kind = 'stock.send' THEN c.waits_since
                           ELSE greatest(f.changed_at, j.started_at, j.accepted_at,
                                         CASE WHEN c.waits_since IS NULL THEN c.started_at END) END AS since
               FROM calling j
               CROSS JOIN LATERAL (
                   SELECT state, calls_partner, leased_until, attempts, error, started_at, waits_since FROM job_chunk
                   WHERE job_id = ANY (ARRAY[j.id]) AND number = $5 LIMIT 1) AS c
               LEFT JOIN LATERAL (SELECT changed_at FROM partner_fetch WHERE job_id = ANY (ARRAY[j.id]) LIMIT 1) AS f ON true
               WHERE c.calls_partner AND (c.leased_until > now() OR (c.state = 'queued' AND c.error IS NOT NULL))
           ), grouped AS (
               SELECT kind, organisation_id, eshop_id, count(*) AS jobs, min(since) AS since, max(since) AS last,
                      (array_agg(id ORDER BY since, id))[1] AS job, (array_agg(attempts ORDER BY since, id))[1] AS attempts,
                      (array_agg(error ORDER BY since, id))[1] AS error
               FROM silent WHERE since < now() - make_interval(mins => $4) GROUP BY kind, organisation_id, eshop_id
           ), named AS (
               SELECT *, row_number() OVER (PARTITION BY organisation_id ORDER BY since, eshop_id, kind) AS turn
               FROM grouped ORDER BY turn, since, eshop_id, kind LIMIT $6
           )
           SELECT n.kind AS "kind!", n.organisation_id AS "organisation_id!: OrganisationId", n.eshop_id AS "eshop_id!: EshopId",
                  s.name AS "eshop!", n.jobs AS "jobs!", n.job AS "job!: JobId", n.since AS "since!", n.last AS "last!",
                  n.attempts AS "attempts!", n.error
           FROM named n
           CROSS JOIN LATERAL (SELECT name FROM eshop WHERE id = ANY (ARRAY[n.eshop_id]) LIMIT 1) AS s
           ORDER BY n.since, n.eshop_id, n.kind"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        UNDER_WAY,
        SILENT_MINUTES,
        CALLING,
        LISTED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

fn line(silent: &Unanswered, now: DateTime<Utc>) -> Line {
    let subject = format!("{} {}", silent.eshop_id, silent.kind);
    let owner = Owner::Organisation(silent.organisation_id);
    let page = Page::Record("job", silent.job.into());
    let line = Line::new(Kind::SilentPartner, &subject, owner, silent.in_words(now), page);
    Line { severity: Severity::Warning, word: "partner", cause: Some(silent.last), ..line }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_silent_partner_is_named_with_the_attempt_and_what_failed() {
        let now = DateTime::from_timestamp(1_767_225_600, 0).unwrap();
        let silent = Unanswered {
            kind: "product.sync".to_owned(),
            organisation_id: OrganisationId::nil(),
            eshop_id: EshopId::nil(),
            eshop: "Harbour".to_owned(),
            jobs: 1,
            job: JobId::nil(),
            since: now - TimeDelta::minutes(7),
            last: now,
            attempts: 1,
            error: None,
        };
        let first = "product sync of Harbour has made no progress at its partner for 7 min, attempt 1 of 10: no answer yet";
        assert_eq!(silent.in_words(now), first);
        let blocked = Unanswered { jobs: 2, attempts: 0, error: Some("it is blocked".to_owned()), ..silent };
        let sentence =
            "product sync of Harbour (2 jobs) has made no progress at its partner for 7 min: it is blocked";
        assert_eq!(blocked.in_words(now), sentence);
    }
}
